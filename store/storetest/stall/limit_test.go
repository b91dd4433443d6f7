package stall

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A test that goes on is ended, and one that has ended is not.
func TestLimit(t *testing.T) {
	t.Parallel()
	for name, stops := range map[string]bool{"TestThatHangs": false, "TestThatEnds": true} {
		synctest.Test(t, func(t *testing.T) {
			var said string
			stop := start(name, func(text string) { said = text })
			defer stop()
			time.Sleep(most - time.Second)
			synctest.Wait()
			if said != "" {
				t.Errorf("before its time: %s", said)
			}
			if stops {
				stop()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if stops != (said == "") || !stops && !strings.HasPrefix(said, "TestThatHangs has not ended within 4m0s") {
				t.Errorf("%s: %q", name, said)
			}
		})
	}
}

func TestNoLimitInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		Limit(t)
		time.Sleep(time.Hour) // it would end this program
	})
}
