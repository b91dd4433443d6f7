// Package request runs jobs that are requests to services: for each job one request, which the worker
// itself sends, over a connection that was there before. Requester implements jobexec.Requester.
//
//	Start ─► service.take ─► Begun ══► the worker journals started ══► Proceed ─► ask ─► Ended
//	          a connection    with its                                 the first byte is sent
//	          dial, TLS       address
//
// What all such executors share is in request.go (the services of the targets, reports of how they
// stand, and a job, from its connection to its outcome) and service.go (connections, and whether any
// can be had). What a kind of service speaks is a protocol: http.go and fastcgi.go. What holds of
// HTTP here holds of FastCGI, but for two things: its connections are made for one request each, and
// only the record that ends a request makes an answer whole, whatever came before it.
//
// # What is known after a crash
//
//	killed                  known of a job
//	worker, before started  never sent: it is started anew
//	worker, after started   unknown: the service may have had the request
//	service, before started not started: the target is unable until there is a connection again
//	service, after started  unknown, unless its answer was there to its last byte
//	power                   as for the worker
//
// # The crash argument
//
// A request has no process that outlives the worker, and nobody who could be asked afterwards. All
// rests on one order: the connection is made; started, with its address, is journalled; the first
// byte is sent. What if the worker is killed right there:
//
//   - Before or while the connection is made: no byte was sent. The journal says running, executor
//     http or fastcgi, and not started: the next start queues the job again.
//   - After that, before started is journalled: the same. The service saw a connection without a
//     request.
//   - After started, before the first byte: the journal can't tell that from what follows. The
//     outcome is unknown, and on_crash decides. So a request that was never sent may be reported as
//     unknown, but none is sent twice unless on_crash says so.
//   - After the first byte, before the end of the answer, or before done is journalled: unknown.
//   - After done: nothing is lost.
//
// And where the worker lives:
//
//   - There is no connection, or no TLS: not started. The target is unable, with the reason, and
//     claims nothing; the service is dialled again, ever later, and the first connection that stays
//     makes the target able.
//   - The peer has closed a connection before the first byte was sent: another one is made, once, if
//     it was kept from before. One that was closed as soon as it was made shows that nobody serves
//     behind it: not started.
//   - The peer closes the connection when the first byte is on its way, or goes silent, or answers
//     what is no HTTP, or half of it: unknown. It is never sent again: a request is written by one
//     call to one connection, and there is no http.Transport here, which repeats some.
//   - A proxy says that it has no answer (502, 504): unknown, since the service may have had it.
//   - A FastCGI server is killed, or its process that has the request: unknown. A request that waits in
//     its queue when jobd gives it up may be run still: unknown, too.
//   - A timeout or a signal closes the connection: unknown. What the service makes of that is its
//     matter. Before the request was sent, a signal ends the job: that it was not sent is known.
package request
