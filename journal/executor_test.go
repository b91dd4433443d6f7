package journal

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A request that has a connection and was never sent may be announced once more under its number; a
// process that was there counts. What runs a job outlives a checkpoint.
func TestARequestThatWasNeverSentMayBeAnnouncedOnceMore(t *testing.T) {
	t.Parallel()
	for address, legal := range map[string]bool{"https://[::1]:443": true, "": false} {
		var s State
		for i, payload := range []Payload{
			Accepted{Target: "t", Token: "@a"}, Running{Attempt: 1, Executor: "http"}, Started{Address: address}, Running{Attempt: 1, Executor: "fork"},
		} {
			err := s.Apply(Event{Seq: uint64(i + 1), Time: time.Unix(int64(i+1), 0).UTC(), Job: 1, Payload: payload})
			var illegal *IllegalError
			if refused := errors.As(err, &illegal); err != nil && !refused || refused != (i == 3 && !legal) {
				t.Errorf("address %q, event %d: %v", address, i, err)
			}
			text, err := EncodeCheckpoint(&s)
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeCheckpoint(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.Job(1), again.Job(1)); diff != "" {
				t.Errorf("address %q, event %d: a checkpoint changes the job (-want +got):\n%s", address, i, diff)
			}
		}
	}
}
