// Package api is what the daemons and their clients say to each other: for each request its
// name, its data, what is refused in it and in which words, and the data of its answer. Worker,
// master and jobctl use the same types; docs/protocol.md describes them for people who write
// clients.
//
// A request is declared once, as a variable of type Request, beside the structs of its data and its
// answer:
//
//	worker.go   what a worker answers
//	master.go   what a master answers, and what a worker registers with
//	journal.go  what is asked about journals, of either
//	operator.go what operators ask of workers, of either
//	jobs.go     what is asked of the index beside a worker's journal, of either
//	read.go     how data is read that a peer sent
//
// The structs are written as JSON by encoding/json. They are read by hand where clients know the
// texts of the refusals; a field that a request does not have is
// ignored. Answers are read by encoding/json: a field that is missing, from an older peer or the
// original, leaves its zero value.
package api
