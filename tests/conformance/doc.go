// Package conformance plays the exchanges that were recorded from the original daemons
// (testdata/conformance) against the real jobd and jobd-master: clients, workers
// and masters of the original must notice no difference but the named ones of docs/protocol.md.
package conformance
