// Command bench measures what jobd costs beside what the machine must do anyway: how fast it can fork, exec and
// reap, how much of that is left when the jobs come out of a table, how long one job
// by hand takes, how many events a second the journal takes, and how much memory the daemons need.
//
//	bench [--json FILE]
//
// The database is a MariaDB of its own with the server's own defaults for durability. `make bench` runs it.
// Numbers are printed, never judged: they are this machine's.
package main
