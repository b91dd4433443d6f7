// Package runner is the worker's side of the runner: the process in which jobs run, so that a
// worker can be killed or upgraded while they do. Remote finds the runner that a former worker
// left, or starts one, and implements jobexec.Runner and jobexec.Keeper on a connection to it.
//
//	worker                                                   runner process
//	Remote ─► connector ─► link ═► wire.Outbox ──unix socket──► host
//	                       processes ◄═ receive ◄──────────────
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
//   - What it had put on disk of their output (wire.OutputFolder) is read when their end is known,
//     and stands in the outcome of a stray, and of one that is gone at once. The names have the
//     process, so that no other start of the job is taken for it. The files are removed when the
//     worker says forget; killed in between, the next start finds the outcome in the journal, and
//     removes every file of a start that is neither under way nor the runner's (Sweep).
//   - A worker of an older version knows nothing of these files: those of a runner that was killed
//     under it stay until a newer one starts. A runner of an older version writes none.
//   - The connection is lost while somebody looks at a job's output: what is on disk is told, and
//     the next look goes to the runner again.
//   - How long a stray ran is the time since its start, in clock ticks.
package runner
