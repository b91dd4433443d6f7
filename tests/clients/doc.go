// Package clients runs the clients of examples/clients, in five languages, through the same cases:
// against real daemons and a real database, over connections that cut what passes into pieces, and
// against a peer that does what a daemon seldom does. What stands in docs/clients about
// applications is run as it stands there.
package clients
