package stall

import (
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// most is far more than a test takes that has no other limit, on a machine that has much else to
// do.
const most = 4 * time.Minute

// Limit ends the test's program when the test has not ended within some minutes: with the test's
// name and what each goroutine waits for. It does nothing in a synctest bubble, where the clock is
// another, and who waits in vain is found at once.
func Limit(t testing.TB) {
	if time.Now().After(bubbles) {
		t.Cleanup(start(t.Name(), end))
	}
}

// bubbles is before all times at which tests run, and behind the beginning of the bubbles' clock.
var bubbles = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func start(test string, end func(text string)) (stop func()) {
	timer := time.AfterFunc(most, func() {
		end(fmt.Sprintf("%s has not ended within %s: it waits for something that does not come, see the goroutines", test, most))
	})
	return func() { timer.Stop() }
}

// end ends the program as the time limit of go test does.
func end(text string) {
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // the text comes all the same
	panic(text)
}
