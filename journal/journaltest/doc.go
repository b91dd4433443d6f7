// Package journaltest makes journals for the tests of what reads and judges them: logs whose clock
// the test moves, with segments where the test wants them, and jobs that live from claim to end. It
// is linked by tests only.
//
// # The crash argument
//
// There is nothing to survive: a log is in a folder of its test, which goes with it.
package journaltest
