// Package runner is the worker's side of the runner: the process in which jobs run, so that a
// worker can be killed or upgraded while they do. Remote finds the runner that a former worker
// left, or starts one, and implements jobexec.Runner and jobexec.Keeper on a connection to it.
//
//	worker                                                   runner process
//	Remote ─► link ═► wire.Outbox ──unix socket──► host
//	          processes ◄═ receive ◄──────────────
//
// What the two say to each other is in exec/runner/wire, the runner process is exec/runner/host,
// and what both need of Linux is in exec/runner/proc. Neither side links the other.
//
// # The crash argument
//
//   - The worker is killed: jobs run on, and the runner keeps their outcomes. The next worker opens
//     the same socket, and Recall lists every start that was read, done or refused, and not
//     forgotten.
//   - The worker is killed between journalling an outcome and forget: the next one is told of the
//     job again, and says forget.
//   - The connection is lost while both live: the worker connects again, and its processes go on
//     with what the runner says of them then. A start that the same runner does not know was never
//     read.
//   - The runner ended by itself: its name is in runner.ended. Starts under that name whose
//     outcomes are not journalled never happened. A new runner has a new name, and a start is only
//     asked of the runner whose name was journalled for it.
//   - The runner is killed: its name is not in the list. Its jobs run on, but nobody reads their
//     output or learns how they end. A stray is found by process id, start time and boot, can be
//     signalled, and its end is waited for. Of a job in its first milliseconds not even those three
//     are known: its outcome is unknown at once.
//     What they have written went with it.
//   - The connection is lost while somebody looks at a job's output: nothing is told, and the next
//     look goes to the runner again.
//   - A start has a limit: the runner sees to that, and goes on when the worker is killed. Where
//     the runner is killed, and the process is adopted, the worker does (process.go), by what it was
//     asked for, or, started again, by the journal. Killed before SIGTERM, the next start sends it,
//     as soon as it adopts the process. Killed between SIGTERM and SIGKILL, it begins with SIGTERM
//     again, since nobody knows whether the job had one, and what the job has left of its time.
//     Killed after SIGKILL, or after the end: the next start finds no process, and the outcome is
//     unknown. A stray that got a signal for its limit has failed, which is known; its exit code is
//     not.
//   - Which start is meant: job, token and attempt. A runner that knows no tokens is not talked to
//     (link.go): its jobs go on, and the version that started it can be started again for them.
//   - Pool processes (pools.go) belong to the runner, and go on when the worker is killed, with their
//     jobs. The next worker says anew which pools it wants, with each connection; the runner replaces
//     what differs. It does not start jobs that no pool process was asked for before the worker left:
//     the runner knows nothing of them, so that they never happened.
//   - The runner is killed while jobs run in pool processes: a fork is a stray as any process, known
//     by its own id. A process that stays sees the end of its input and ends when its job has; the
//     worker waits for that, and the outcome is unknown. Its time counts from the job's begin, which
//     the worker has noted, or, where that was killed too, from its announcement.
//   - A runner of another build is left when it has no job and nothing that is not journalled
//     (connector.go), and ends by itself; until then it has all starts. Killed in between, the next worker
//     finds one runner or the other, and begins anew. A start that was announced for the one that is
//     left is announced anew.
//   - A job that is to have another account is started only by a runner that says that it may change to it.
//     One that was there before the worker had the right is left as one of another build.
//   - A job stops a process of its account that is about to execute its program, so that the runner hangs:
//     the worker has it go on (connector.go). Where there is no worker the next one does.
//   - How long a stray ran is the time since its start, in clock ticks; of one that was there before
//     its job, the time since that began.
package runner
