// Package net is jobd's wire protocol: JSON arrays, each ended by one byte 0x04, over TCP; requests
// and responses matched by number, pings, one shared password. docs/protocol.md describes it for
// people who write clients.
//
// The package knows no jobs. A Server accepts links and answers what its handlers can answer;
// Connect makes a link to a server. Both ends of a link may send requests: that is how a master
// asks the workers that registered with it.
//
// # The way of a frame
//
//	        splitter        parse          Link.serve                       Link.write
//	bytes ──────────► frame ─────► message ───────────► one by one, a ──────────────► bytes
//	        limit,                         password,     goroutine each        write deadline
//	        deadline                       handler       until Proceed
//
// A peer is never trusted with memory. What it sends is bounded by the message limit (a small one
// until it gave the password) and by the number of requests under way, what it does not fetch by one
// answer at a time: beyond that the link is not read, and a peer that stays stuck is dropped. What
// is long counts for all links of a server together (serve.go), so that many peers can't do what
// one can't; what is short never waits for it. An idle link costs two goroutines and half a KiB of
// buffer.
//
// Nor with descriptors: unauthenticated links make room for those that come, the oldest first, and
// some descriptors are kept for the rest of the process. Nor with the log (error.go), which has a bound
// for all peers, nor with guesses at a short password (auth.go), by address.
//
// # How a link ends
//
// A peer that closes its half says no more and reads on; one that has ended looks the same until
// something is sent to it. Where we have asked it something, that makes no difference: it can't
// answer, the link ends. Else its requests are answered, and a space now and then asks its system
// whether it is there (link.go).
//
// A peer answers pings from the goroutine that reads, in order: a pong proves that everything
// before its ping was read. What was only written proves nothing. A link that ends tells of each
// request whether all of it was handed to the connection: where it was not, the peer can't carry it
// out; where it was, nobody knows.
//
// The protocol was born in JavaScript, and its error texts quote values the way that language
// prints them; frame.go holds those rules in one place.
//
// The package is imported as jobnet and exports no name that the standard package net has.
package net
