// Package wire is what a worker and its runner say to each other: the messages, their encoding, and
// how they are read from and written to a unix socket. Both sides use it; it knows no process and
// starts none.
//
// The two ends may be of different builds: a worker that was upgraded talks to the runner that the one
// before left, until that has nothing any more, and the other way round. So the bytes are those of
// commit 853d0e5 (message.go).
//
// # The crash argument
//
//   - A message is whole or it was never sent: its length stands in front of it, and a peer that
//     dies in the middle of one has not said it. Every decision of the other side rests on whole
//     messages.
//   - Which start is meant is in every message: job, attempt and the token of the claim. A job's row
//     may come back, and another claim start it under the same number: news and requests of the
//     start before, late as they may be, are not taken for news of this one.
//   - What is in an Outbox when its process dies was never sent. The journal (the worker's side)
//     and the kept outcomes (the runner's) do not depend on it: each connection begins with a hello
//     in which the runner lists what it has.
//   - A peer that is gone ends neither reading nor what is read: requests that a killed worker had
//     written still arrive, though nobody can be answered.
package wire
