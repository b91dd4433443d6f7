// Package time looks at what is about time: jobs that start at one, that recur, that are tried again,
// that may run for so long, and in an order of their own. Real daemons work on a real server with an
// account that may SELECT and UPDATE the one table, and no worker polls: what is due is found by the
// worker's own timer, or because somebody said so.
//
//	accuracy   many rows due in one second, on two workers
//	kill       the worker killed at each point of a run that comes back, the runner, both for ever
//	outage     the database away over a planned time
//	year       planned times around the changes of clocks of a year, the server's clock set from each to the next
//	bad        rows that say what can't be
//	terms      attempts, rates, unique keys
//
// The oracle is a file to which the launcher appends. The only clock that anything is held against is
// the server's: nothing starts before its time.
//
// Tests have a short form, and a long one, chosen by TORTURE=long in the environment.
package time
