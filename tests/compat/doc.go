// Package compat opens what former versions have left: their journals, their tables and their
// configurations, as testdata/compat has them. The jobd of this version goes on with each, or says
// why it does not, and what is to be done.
//
// The fixtures were made by the programs themselves, built from this repository's history. With
//
//	go test ./compat -update
//
// those that are missing are made; one that is there is never changed.
package compat
