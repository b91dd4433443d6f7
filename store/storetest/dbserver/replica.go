package dbserver

import (
	"context"
	"errors"
	"fmt"
)

// replicator is the account with which a replica follows its primary.
const replicator = "replicator"

// StartFollowed starts two MariaDB servers, the second of which follows the first asynchronously: what the first has
// committed the second has some time later. Each server's Close ends one of them.
func StartFollowed(ctx context.Context, options Options) (primary, replica *Server, err error) {
	var both [2]*Server
	for i := range both {
		own := options
		own.Args = append([]string{
			"--log-bin=binlog", "--binlog-format=ROW", "--log-slave-updates", fmt.Sprintf("--server-id=%d", i+1),
		}, options.Args...)
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
	if !s.IsMariaDB() {
		return errors.New("follow: only MariaDB's statements are known here")
	}
	if err := primary.CreateAccount(ctx, Account{replicator, replicator}, "REPLICATION SLAVE ON *.*"); err != nil {
		return err
	}
	statement := fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', "+
		"MASTER_PASSWORD = '%[2]s', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE", primary.Port(), replicator)
	if _, err := s.admin.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

// StopFollowing leaves a replica as it is now: it lags.
func (s *Server) StopFollowing(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, "STOP SLAVE"); err != nil {
		return fmt.Errorf("stop following: %w", err)
	}
	return nil
}

// Promote makes a replica a server of its own.
func (s *Server) Promote(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, "STOP SLAVE; RESET SLAVE ALL"); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}
