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
			said := make(chan string, 1)
			stop := start(name, func(text string) { said <- text })
			defer stop()
			time.Sleep(most - time.Second)
			if len(said) > 0 {
				t.Errorf("before its time: %s", <-said)
			}
			if stops {
				stop()
			}
			time.Sleep(time.Hour)
			switch {
			case stops && len(said) > 0:
				t.Errorf("it had ended: %s", <-said)
			case !stops && !strings.HasPrefix(<-said, "TestThatHangs has not ended within 4m0s"):
				t.Error("it was not ended with its name")
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
