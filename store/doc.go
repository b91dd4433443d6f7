// Package store is the way to the jobs table, the source of truth that the
// application writes: claiming rows, applying journalled transitions to rows,
// and the mirror that follows the journal.
//
// Rows are only ever selected and updated, never inserted or deleted.
// The table stands in MySQL or MariaDB (package mysql) or in an SQLite file
// (package sqlite); storetest holds the one conformance suite for both.
package store
