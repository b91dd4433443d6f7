// Package service is what a worker does for those who ask it, whichever way they came: it knows who
// asks, and journals what was refused. A front (the TCP port, a connection to a master, whatever
// comes next) decodes what it is asked, calls a method, and encodes the answer; it decides nothing.
//
//	front: bytes ──► api data, caller ──► Service ──► exec.Worker
//	                                              │
//	                                              └──► refused, requested: the journal
//
// The methods have the data and the answers of net/api, and need no connection: tests call
// them as a front does.
//
// # When things crash
//
// Nothing here lasts. What a client asked for is in the journal before anything is done about it,
// which the worker sees to; a restart that was asked for is journalled before the worker begins to
// stop. A refusal is journalled after its answer was decided: where the process is killed in
// between, nothing had been changed.
//
// Explain changes nothing and journals nothing: what is lost with the process, the link or the
// database is its answer.
package service
