// Package journal is the worker's memory: the vocabulary of what can happen to a job,
// the append-only log on disk, and the fold that gives the state at any moment.
package journal
