// Package proc is what a worker and its runner need of Linux about processes: which process is
// meant (its id, its start time and the boot), for how long it has run, what it inherits, with whose
// rights it runs, and whether a program could be executed at all.
//
// # The crash argument
//
// Nothing here has a state that a crash could lose. The identity of a process is what makes it
// possible to find it again after one: ids are reused, within one boot and by the next, so none of
// the three parts is left out.
package proc
