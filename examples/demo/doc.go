// Command demo is a small application that runs its jobs with jobd, from the first row to the
// audit: it makes the jobs table, starts a master and two workers, inserts rows, pokes, runs jobs
// by hand, kills one, has one recur and one tried again, and then checks every row against what its
// job must have done. `make demo` runs it.
//
//	demo [--store sqlite|mysql] [--bin DIR]
//
// It exits with 0 only if every job was started exactly as often as it should be and every row, exit
// code and output is right; otherwise it prints what the daemons said. Whatever happens,
// Ctrl-C too, its processes and its folder are gone in the end.
package main
