// Package gearman lets programs that were written for gearmand use a worker. A function is a target, what a client
// submits is a row, and Gearman workers are the executor of their targets: net/gearman speaks with them, and nothing
// here starts, ends or retries a job by itself.
//
//	client ─► intake: row inserted, COMMIT ─► JOB_CREATED ─► worker.GivenBack: a claim, as for any row
//	executor: Start ─► a Gearman worker asks ─► Begun ═► started is journalled ═► Proceed ─► JOB_ASSIGN
//	          WORK_DATA, _STATUS, _WARNING ─► intake.live ─► clients that wait
//	          WORK_COMPLETE ─► intake.final; Ended ═► done is journalled ═► intake.committed ─► clients
//
// What clients submit at the same time is one transaction. Clients hear of an end from the journal's commits, whoever
// ran the job: a launcher, a pool, a Gearman worker. Where nothing is inserted (named.go), a workload names a row.
//
//	gearman.go    the front: who may connect, handles
//	gather.go     submissions that have come at the same time
//	intake.go     what becomes a row, and who waits for which job
//	named.go      submissions where nothing is inserted
//	executor.go   jobs that Gearman workers run
//	stdin.go      workloads of jobs that commands run
//	output.go     what those write while they run
//	functions.go  functions that become targets, and how many of their jobs run at once
//	queue.go      what administrators ask
//
// # The crash argument
//
// What if the process is killed, the link drops, or the disk is full right there?
//
//   - Before the COMMIT of a submission: there is no row, and the client has no JOB_CREATED. It submits the job again.
//     With a full disk it gets ERROR.
//   - After the COMMIT, before JOB_CREATED: there is a row that the client does not know of. With a unique id, what it
//     submits again joins that row; without, there are two jobs, as with any queue.
//   - After JOB_CREATED: the row is there, and is run by this start of the worker or the next one, which serves the
//     targets that rows name. Nobody remembers that a row had a foreground client: it is run, and joined by one that
//     submits its unique id again.
//   - The last foreground client goes: its row becomes ignored, if no job runs. A kill before that is journalled
//     leaves a row that is run.
//   - After Start, before started is journalled: nothing was sent, and the worker that has asked for a job hears
//     NO_JOB, or that the link is gone. The next start queues the job again.
//   - After started, before WORK_COMPLETE: a Gearman worker has the job, or nobody. Unknown: on_crash decides, and
//     attempts that are left. What it says of the job later is JOB_NOT_FOUND.
//   - After WORK_COMPLETE, before done is journalled: unknown, too; no client has heard of the end. With a full disk
//     clients wait until there is room.
//   - After done: clients that are still there hear it; others ask GET_STATUS, or look at the row.
//   - The table's row is behind the journal: who submits the unique id of a job that has just ended waits until the
//     row shows that, and gets a new one; what that client submits behind it waits, too, and nobody else.
package gearman
