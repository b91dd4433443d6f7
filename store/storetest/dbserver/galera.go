package dbserver

import (
	"context"
	"errors"
	"fmt"

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
