package dbserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"jobd/store/storetest/freeport"
)

// galeraLibrary is where Debian's package galera-4 has it, which comes with mariadb-server.
const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// StartPair starts two MariaDB servers that replicate each other with Galera: both take writes, and
// a transaction that another node has overtaken fails with 1213, which may be as late as its
// COMMIT. Each server's Close ends one node. It returns when both answer and are in step.
func StartPair(ctx context.Context, options Options) (pair [2]*Server, err error) {
	cluster := "gcomm://"
	for i := range pair {
		group, node, err := galeraNode(cluster)
		if err != nil {
			return pair, errors.Join(err, closePair(pair))
		}
		node.Durable, node.Args = options.Durable, append(node.Args, options.Args...)
		if pair[i], err = Start(ctx, node); err != nil {
			return pair, errors.Join(fmt.Errorf("node %d of a pair: %w", i+1, err), closePair(pair))
		}
		cluster = "gcomm://" + group
	}
	if !pair[0].IsMariaDB() {
		return pair, errors.Join(errors.New("start a pair: only MariaDB has Galera"), closePair(pair))
	}
	return pair, nil
}

// galeraNode is what a node of a cluster is started with, and its address in the group. The second
// one gets its data from the first.
func galeraNode(cluster string) (group string, options Options, err error) {
	var addresses [3]string
	for i := range addresses {
		port, err := freeport.Take()
		if err != nil {
			return "", options, err
		}
		addresses[i] = freeport.Address(port)
	}
	options.Args = []string{
		"--wsrep-on=ON", "--wsrep-provider=" + galeraLibrary, "--wsrep-cluster-name=pair", "--wsrep-cluster-address=" + cluster,
		"--wsrep-node-address=" + addresses[0], "--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=" + addresses[1],
		"--wsrep-provider-options=gcache.size=8M;gmcast.listen_addr=tcp://" + addresses[0] + ";ist.recv_addr=" + addresses[2],
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
	}
	return addresses[0], options, nil
}

func closePair(pair [2]*Server) error {
	var errs []error
	for _, server := range pair {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	return errors.Join(errs...)
}

// groupName is that of all groups: they find each other by their addresses.
const groupName = "b2f4a1c8-6f0e-11ef-9c1d-000000000001"

// StartGroup starts three MySQL servers that replicate each other with Group Replication, in its
// usual form: one of them, the primary, takes writes. It is the first; where it is lost, the next
// one that is left follows it. Each server's Close ends one member. It returns when all are online.
func StartGroup(ctx context.Context, options Options) (group [3]*Server, err error) {
	var addresses [len(group)]string
	for i := range addresses {
		port, err := freeport.Take()
		if err != nil {
			return group, err
		}
		addresses[i] = freeport.Address(port)
	}
	var starts sync.WaitGroup
	var problems [len(group)]error
	for i := range group {
		member := options
		member.Args = append(memberArgs(i, addresses[i], strings.Join(addresses[:], ",")), options.Args...)
		starts.Go(func() { group[i], problems[i] = Start(ctx, member) })
	}
	starts.Wait()
	if err = errors.Join(problems[:]...); err == nil {
		err = form(ctx, group)
	}
	if err != nil {
		return group, errors.Join(fmt.Errorf("start a group: %w", err), CloseGroup(group))
	}
	return group, nil
}

// memberArgs is what a member is started with: what the usual server of tests goes without.
func memberArgs(i int, address, all string) []string {
	return []string{
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog", fmt.Sprintf("--server-id=%d", i+1),
		"--performance-schema=ON", "--report-host=127.0.0.1", "--plugin-load-add=group_replication.so",
		"--loose-group-replication-start-on-boot=OFF", "--loose-group-replication-group-name=" + groupName,
		"--loose-group-replication-local-address=" + address,
		"--loose-group-replication-group-seeds=" + all,
		"--loose-group-replication-communication-stack=XCOM",
		"--loose-group-replication-ip-allowlist=127.0.0.1",
		"--loose-group-replication-recovery-get-public-key=ON",
		fmt.Sprintf("--loose-group-replication-member-weight=%d", 90-30*i),
	}
}

// form has the first member begin the group, and the others join it.
func form(ctx context.Context, group [3]*Server) error {
	if group[0].IsMariaDB() {
		return errors.New("only MySQL has Group Replication")
	}
	first := group[0]
	_, err := first.admin.ExecContext(ctx, "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION; "+
		"SET GLOBAL group_replication_bootstrap_group = OFF")
	if err == nil {
		err = first.AwaitPrimary(ctx)
	}
	if err == nil {
		err = first.CreateAccount(ctx, Account{replicator, replicator}, "REPLICATION SLAVE ON *.*")
	}
	for _, other := range group[1:] {
		if err == nil {
			err = other.Join(ctx)
		}
	}
	return err
}

// Join has a server of a group that was started, again, join the others, and waits until it is
// online.
func (s *Server) Join(ctx context.Context) error {
	join := fmt.Sprintf("START GROUP_REPLICATION USER = '%s', PASSWORD = '%[1]s'", replicator)
	if _, err := s.admin.ExecContext(ctx, join); err != nil {
		return fmt.Errorf("join the group: %w", err)
	}
	return s.awaitMember(ctx, "is online", "member_state = 'ONLINE'")
}

// AwaitPrimary waits until the server is its group's primary and takes writes.
func (s *Server) AwaitPrimary(ctx context.Context) error {
	return s.awaitMember(ctx, "is the primary",
		"member_state = 'ONLINE' AND member_role = 'PRIMARY' AND @@GLOBAL.super_read_only = 0")
}

// awaitMember asks until what the server knows of itself as a member is so: nothing else tells.
func (s *Server) awaitMember(ctx context.Context, what, condition string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		var holds bool
		err := s.admin.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM performance_schema.replication_group_members "+
			"WHERE member_id = @@server_uuid AND "+condition).Scan(&holds)
		if err == nil && holds {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited %s, but no member on port %d %s", startTimeout, s.port, what), err)
		}
	}
}

// CloseGroup ends all members.
func CloseGroup(group [3]*Server) error {
	var errs []error
	for _, server := range group {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	return errors.Join(errs...)
}
