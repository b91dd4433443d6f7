// Package torture breaks what jobd stands on while it works, one sort of fault at a time and often: its
// processes at every point of a job's way and at random, its link around a COMMIT, its disk, its clock, a
// node of its cluster. (Package disorder has faults of many sorts at once.) The oracle is a file that the
// launcher appends to, so that what was started is known whatever the journal and the table say.
//
// A run is safe when each job was started at most once per claim and attempt, each row is at its end with
// the true outcome or says that it is unknown, no row was added or removed, and the journal verifies.
//
// Tests have a short form, and a long one, chosen by TORTURE=long in the environment. What was
// counted is printed as a table at the end.
package torture
