// Package dbserver starts a database server of its own for tests, benchmarks and the demo:
// MariaDB as Debian installs it, or, where JOBD_TEST_MYSQL_ROOT names a folder made by
// tools/mysql-chroot.sh, the MySQL in there. A missing server is an error that says how
// to install it.
//
// A server has a data folder, a socket and a port on 127.0.0.1 of its own. It is
// killed by the kernel when the process that started it ends, however that
// happens; a folder that such an end leaves behind is removed by the next Start.
package dbserver
