// Package journal is the vocabulary of a worker's memory: what can happen to a job and to the worker,
// which event may follow which, and the fold that gives the state at any moment. It knows no disk, no
// table, no socket and no process, and needs the standard library only: a program that wants the word
// Event links nothing else.
//
// An Event has a kind and a payload of that kind; kinds.go registers all of them. A State is a fold
// over events: Apply takes the next one, or refuses it where the transition table in transition.go
// does not allow it. A Stage tries events on top of a state that must not change before they are
// durable. A checkpoint is a state as bytes, from which a fold can go on.
//
// The log itself is in the packages below this one, each of which imports only those before it:
//
//   - archive: the files: segments, open or sealed, their hash chain, the head file, and the folder
//     that holds them as one row.
//   - replay: reading the history: selected events, jobs and states as of any time.
//   - verify: what is proven, sound, damaged or missing.
//   - eventlog: the log that a worker writes: appending, rolling over, sealing, retention.
//
// # What holds, wherever a process dies
//
// Events are appended before they have any effect, so the history may know of something that never
// came to pass, and never misses something that did. Sequence numbers have no gap, times never run
// backwards, and each event's hash covers the hash before it. Nothing in this package is on disk or
// outlives the process: a state is folded again from the history, and comes out the same. The crash
// arguments of what is on disk are in the doc.go of eventlog (writing) and archive (files, reading
// beside a writer).
package journal
