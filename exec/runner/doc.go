// Package runner starts jobs as processes: each the leader of a process group of its own, its
// stdin empty, its stdout and stderr captured up to a limit, the rest drained and counted.
//
// Local starts them as children of this process. When this process is killed, they run
// on, but their output has no reader any more and nobody learns how they end: Adopt finds
// them again by process id, start time and boot, and can only wait for their end.
package runner
