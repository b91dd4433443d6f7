// Package reconcile compares the rows of the jobs table with what a journal says of their jobs, and
// brings rows back to it, as after a backup of the table was restored.
//
// It has no update of its own: it goes the way of a claim and of the mirror, with the token that
// the journal has for the claim, and so with their guards:
//
//	row says                        journal's newest claim of the job           done
//	waiting, manual                 accepted, running or done                   claimed with its token, then as below
//	accepted, running, its token    accepted, running or done                   brought to it
//	accepted, running, a token of   any; the row's claim is an older one        given back, then as above
//	  an earlier claim of the job
//	waiting, manual                 ignored                                     ignored
//	created later than the claim    any                                         refused: another job with the same id
//	anything else                                                               refused, and left as found
//
// Rows are brought back by the batch, each step of it in one transaction: giving back, claiming,
// and the end. A row is waiting again after its end where somebody set it back by hand; that it was
// done may show in time_finished, and then it is refused.
//
// # The crash argument
//
// Before the first row is changed the journal says that somebody wants it, and at the end what was
// done: where the second event is missing, the worker was killed. Killed between two steps, the row
// bears the token of the journal's claim, and the next reapply goes on from there.
package reconcile
