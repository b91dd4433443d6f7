// Package gearman speaks the protocol of gearmand: packets of clients and workers, and the text commands of
// administrators, all on one port. It knows no table and no journal: what clients submit goes to an Intake, what
// workers say of a job to its Run, and what administrators ask to a Queue.
//
//	client ──SUBMIT_JOB──► Peer.submit ──► Intake.Submit ┄┄► Submission.Created ──JOB_CREATED──► client
//	worker ──CAN_DO──────► Server.canDo ─► Functions.Add, Workers
//	       ──GRAB_JOB────► Server.grab ◄── Server.Offer ◄── a job that is to be started
//	                           └─► Run.Taken ┄┄ the start is journalled ┄┄► Server.Assign ──JOB_ASSIGN──► worker
//	       ──WORK_…──────► Server.said ──► Run.Heard
//	admin ──"status"─────► Peer.command ─► Queue.Counts
//
// A connection has one goroutine, which reads. What it is sent is gathered, and written by another one that ends
// when there is nothing more: many answers are one write.
//
//	packet.go    packets, and how their arguments are separated
//	payload.go   what long packets of all peers together may take of the memory
//	peer.go      a connection
//	server.go    the server, and the interfaces that it calls
//	client.go    what clients ask, and who may ask what
//	worker.go    what workers can do, and which jobs they have
//	admin.go     the text commands
//
// # The crash argument
//
// Nothing here outlives the process, or has to: JOB_CREATED is sent when the intake says that the row is
// committed, and a job is sent to a worker when its start is journalled. What if a connection is lost?
//
//   - A client's, before JOB_CREATED: it does not know whether there is a job; with a unique id it submits the same
//     one again. After that: a background job goes on; the intake hears that nobody waits.
//   - A worker's, before it was sent the job it has asked for: the job was not started. After that: Run.Lost, and
//     nobody knows how it ended.
//   - What a peer does not take in time, or more than it can be kept for it, ends its connection.
package gearman
