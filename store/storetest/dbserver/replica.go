package dbserver

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// replicator is the account with which a replica follows its primary.
const replicator = "replicator"

// StartFollowed starts two servers, the second of which follows the first asynchronously: what the
// first has committed the second has some time later. Each server's Close ends one of them.
func StartFollowed(ctx context.Context, options Options) (primary, replica *Server, err error) {
	var both [2]*Server
	for i := range both {
		own := options
		if os.Getenv(rootVariable) != "" {
			own.Args = append([]string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON"}, own.Args...)
		}
		own.Args = append([]string{
			"--log-bin=binlog", "--binlog-format=ROW", "--log-slave-updates", fmt.Sprintf("--server-id=%d", i+1),
		}, own.Args...)
		if both[i], err = Start(ctx, own); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("server %d of two: %w", i+1, err), closePair(both))
		}
	}
	if err := both[1].follow(ctx, both[0]); err != nil {
		return nil, nil, errors.Join(err, closePair(both))
	}
	return both[0], both[1], nil
}

// follow makes the server a replica of another one.
func (s *Server) follow(ctx context.Context, primary *Server) error {
	if err := primary.CreateAccount(ctx, Account{replicator, replicator}, "REPLICATION SLAVE ON *.*"); err != nil {
		return err
	}
	if !s.IsMariaDB() {
		return s.followSource(ctx, primary)
	}
	statement := fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', "+
		"MASTER_PASSWORD = '%[2]s', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE", primary.Port(), replicator)
	if _, err := s.admin.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

// followSource is follow in MySQL's words. What the primary has done so far, its accounts, the
// replica has of its own.
func (s *Server) followSource(ctx context.Context, primary *Server) error {
	var done string
	if err := primary.admin.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&done); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	statement := fmt.Sprintf("SET GLOBAL gtid_purged = '+%s'; CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, "+
		"SOURCE_USER = '%s', SOURCE_PASSWORD = '%[3]s', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; "+
		"START REPLICA", done, primary.Port(), replicator)
	if _, err := s.admin.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

// role is the word that the server has for replicas in statements.
func (s *Server) role() string {
	if s.IsMariaDB() {
		return "SLAVE"
	}
	return "REPLICA"
}

// StopFollowing leaves a replica as it is now: it lags.
func (s *Server) StopFollowing(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, "STOP "+s.role()); err != nil {
		return fmt.Errorf("stop following: %w", err)
	}
	return nil
}

// Promote makes a replica a server of its own.
func (s *Server) Promote(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, fmt.Sprintf("STOP %[1]s; RESET %[1]s ALL", s.role())); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}
