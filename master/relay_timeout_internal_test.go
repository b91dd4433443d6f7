package master

import (
	"testing"
	"time"

	"jobd/net/api"
)

// A client that asks all workers for something waits 10 s for the master's answer. Within them a
// worker that hangs is given up, and what the others said is handed over.
func TestAWorkerThatHangsHidesNoAnswerOfTheOthers(t *testing.T) {
	const patience = 10 * time.Second // jobctl's
	for typ, how := range api.Kinds {
		if limit := timeoutOf(how, false); limit >= patience-time.Second {
			t.Errorf("%s: a worker may take %v", typ, limit)
		}
	}
	if limit := timeoutOf(api.Kinds[api.Cancel.Name], true); limit < 3*patience {
		t.Errorf("a worker that is asked alone may take %v for rows that somebody holds", limit)
	}
}
