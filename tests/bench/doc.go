// Command bench measures what jobd costs beside what the machine must do anyway. Each number stands beside the raw limit
// that is measured in the same run, in turn with it, so that what disturbs the machine disturbs both.
//
//	bench [--json FILE] [NAME...]
//	bench --against COMMIT [--pairs N] [--json FILE] NAME...
//
// The second form runs the benchmarks of this checkout and of a commit in its history in turn, and tells how many times
// better this one is, with a 95 % interval.
//
// Without names it measures everything that belongs to the table in docs/performance.md; the name list lists them. The database
// is a MariaDB of its own with the server's own defaults for durability, and the daemons' account may SELECT and UPDATE
// the one table. `make bench` runs it. Numbers are printed, never judged by the exit code: they are this machine's.
package main
