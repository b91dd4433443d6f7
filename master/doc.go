// Package master finds the right workers. Workers connect to the master and register; clients ask the
// master, which asks the workers over the connections that they made:
//
//	client ──poke, run-manual, …──► Master ──poll, run-manual, …──► Agent in the worker
//	                                  │ registry: who serves what
//
// Master is the daemon's side, Agent the worker's. Either works with the other or with that of the original Node.js jobd.
//
// # When things crash
//
// The master keeps nothing on disk: jobs live in the table and in the workers' journals. After a restart the workers register again,
// and each of them polls by itself when it starts and when its database comes back; so a poke that was acknowledged
// and then lost with the master is made up for by the next poke or poll, and no job is lost with it. A poll that could not be delivered, because the
// worker's connection broke or nobody served the target, is remembered and made when a worker that serves it registers.
// A client that waits for a manual job is told when the connection to its worker breaks; the job itself runs on and is in the worker's journal.
// Nothing is ever sent twice that starts a job.
package master
