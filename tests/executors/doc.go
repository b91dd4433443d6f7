// Package executors has one suite that all executors pass: a process for each job, forks,
// pools, and requests. The same jobs run in all of them, under real daemons, and a table
// (table_test.go) says where an executor gives less than a process of its own.
//
// A job is a script, whatever runs it. The first thing that it does is to write a line into a file
// that outlives everything; so it is known what was started, how often, and by which version of a
// launcher, whatever journal and table say.
//
// What is killed, and at which step, has a short form, and a long one, chosen by TORTURE=long in
// the environment.
package executors
