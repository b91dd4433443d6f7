// Package sqlite is the jobs table in an SQLite file, for machines without a database server.
// The application writes its rows into the same file, and several workers
// may share it, each in a process of its own, on one machine.
//
// SQLite has one writer at a time: every transaction here is a writing one from its
// beginning, so it waits for those of other processes instead of failing half way, and
// no row has to be locked by itself. A claim holds the file while its decision is made durable.
//
// What a crash leaves is for SQLite to say: a transaction that has committed is on disk
// (WAL, synchronous FULL), any other never was. There is no doubtful commit.
package sqlite
