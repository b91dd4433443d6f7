// Package live is what jobctl top shows and what its keys do: workers, targets and running jobs,
// asked for again and again.
//
//	keys, window ──► update ──► view ──► terminal
//	                 ▲    │
//	         answers │    │ requests, each beside the others
//	                 └────┴──── Source
//
// It keeps nothing. Killed at any moment it leaves the daemons as they are: each action is one
// request, which the worker journals before it has an effect, and which nobody sends again. Where
// the answer to an action is lost, the view says that nobody knows whether it was carried out. Only
// kill -9 leaves the terminal in the state that the view needs; `reset` mends it.
//
// No request is waited for by the keys. Of each kind one is under way at a time, so a daemon that is
// slow or silent is asked no more often than it answers, and the view says since when it is silent.
//
// What others say is made harmless at the last step, when lines are fitted to the window.
package live
