// Package harness runs the built daemons as an operator would: configuration files in a
// folder, real processes, a real database server with an account that may SELECT and UPDATE
// one table, and a client of the wire protocol that shares no code with jobd.
//
// Nothing here sleeps: every wait is for a condition, tried again until it holds or its deadline
// passes.
package harness
