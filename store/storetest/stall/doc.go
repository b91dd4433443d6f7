// Package stall ends tests that wait for what does not come, and says which. Otherwise such a test
// would take all the time that go test gives its package, and with it the time of the tests that wait
// behind it.
package stall
