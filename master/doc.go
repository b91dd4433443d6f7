// Package master finds the right workers. Workers connect to the master and register; clients ask
// the master, which asks the workers over the connections that they made:
//
//	client ──poke, run-manual, …──► Master ──poll, run-manual, …──► Agent in the worker
//	                                  │ registry: who serves what
//	                                  │ ledger: what was poked, until a worker answered
//
// Master is the daemon's side, Agent the worker's. Either works with the other or with that of the
// original Node.js jobd.
//
// # When things crash
//
// The master needs nothing on disk: jobs live in the table and in the workers' journals. What it is
// asked to change its Recorder may keep, before a worker is asked. After a
// restart the workers register again, and each of them polls when it registers, when it starts and
// when its database comes back; so a poke that was acknowledged and then lost with the master is
// made up for, and no job is lost with it.
//
// A connection may be dead without having been closed: what is written to it goes nowhere, or only
// one of its ends hears the other. So nothing counts that was only written:
//
//   - A poke is owed until a worker that serves the target has answered its poll, however often it
//     must be asked, or a day has passed. A worker that registers gets all pokes that are owed, and
//     looks for jobs of all its targets besides: after an outage all workers come back, and the first
//     does not keep a poke from the others.
//   - Agent.Poke lasts until the master has answered it, over as many connections as it takes. An
//     agent that stops delivers what is pending before Run returns, over a connection of its own.
//     What is lost where a worker is killed with it, a registration or the poll interval finds.
//   - One instance of a worker is registered once. Its newer registration closes the older one's
//     link: the worker has left that. A registration that was sent earlier and arrives later comes
//     over a connection that was made earlier, and is refused.
//   - Jobs are given by hand only to a worker that has answered a ping just before. To one that has
//     not within the deliveryTimeout nothing is sent, so it can't read later what a client was told
//     not to be delivered; another worker that serves the target may be given the job, and the
//     client is told within 10 s where there is none.
//
// Nothing is ever sent twice that starts a job. A connection may also die in the instant between
// the pong and the request. Neither the kernel's count of bytes that are not acknowledged nor a
// pong that does not come then tells whether the worker got it: an acknowledgement may be lost as
// well as the data, and a process that is stopped has its data acknowledged and reads it when it
// goes on. So the master waits for the answer as long as the link lives, which the pings decide, or
// until the instance registers anew, and then says that the outcome is unknown. Only a request of
// which not all was handed to the connection counts as undelivered. The job, if it was delivered,
// runs on and is in the worker's journal.
//
// # Many peers, one master
//
// What a peer asks is bounded by number (master.go), since its cost grows with numbers, not with
// bytes alone; a name is looked up, never compared with each of many. The master asks a bounded
// number of workers at once for one client, and bounds what is long on its way to workers for all
// clients together.
//
// # Names
//
// Targets compare exactly, as everywhere on the wire, whatever a table's collation takes for one.
package master
