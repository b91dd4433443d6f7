package proctest

import (
	"testing"
	"time"
)

// Until waits until something holds that nothing tells of.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for late := time.After(patience); !holds(); {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
