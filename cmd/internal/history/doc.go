// Package history is what jobd's journal requests and jobctl have in common: a worker's journal as streams of
// events, jobs and findings, their form on the wire, and the cursors by which a worker hands out a stream page by page.
//
// A stream is produced only as fast as its reader asks: between two pages the producer stands still, with one
// item in its hand. A page is bounded in bytes, in items and in time, so that no request takes long, whatever
// it has to read through, and a reader that waits for something rare learns that the worker lives.
//
// A cursor belongs to the link that it was opened on and ends with it, so a client or a master that
// dies leaves nothing behind; one that nobody asks for a while is dropped. Nothing of it is on disk: after a worker's restart the
// cursors are unknown, and the client, who knows what it has read, opens another.
package history
