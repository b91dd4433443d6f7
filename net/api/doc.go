// Package api is what the daemons and their clients say to each other: for each request its
// name, its data, what is refused in it and in which words, and the data of its answer. Worker,
// master and jobctl use the same types; docs/protocol.md describes them for people who write
// clients.
//
// A request is declared once, as a variable of type Request, beside the structs of its data and its
// answer:
//
//	worker.go   what a worker answers, its status too
//	master.go   what a master answers, and what a worker registers with
//	journal.go  what is asked about journals and the index beside one, of either
//	operator.go what operators ask of workers, of either
//	request.go  how a request is declared, who may ask it, and how its data is read
//
// The structs are written as JSON by encoding/json. They are read by hand where clients know the
// texts of the refusals; a field that a request does not have is
// ignored. Answers are read by encoding/json: a field that is missing, from an older peer or the
// original, leaves its zero value.
package api
