// Package proctest is what tests of several packages do to processes. It is linked by tests only.
//
// # The crash argument
//
// There is nothing to survive: a process that stands still belongs to a test, which ends it.
package proctest
