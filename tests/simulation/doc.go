// Package simulation runs the engine's own code in virtual time: workers, their mirrors and agents, and
// masters, over a simulated table, network and runner. Thousands of workers and hours of faults take
// seconds. A seed draws what happens. Afterwards one oracle judges the table, all journals and what was
// started.
//
// # The crash argument
//
// A worker that is killed reaches nothing any more, at that very moment: table, journal, runner and network
// refuse what its process asks for. What it had under way there may be carried out or not. Its journal, and
// the runner with its jobs, stay. The next process of the worker finds them.
package simulation
