package host

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

// Regression: a job that had waited for its process was told that its time was over before it began.
func TestAJobThatHasWaitedIsToldWhenItIsEnded(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.pools(pooled(mode, 1))
			longAgo := time.Now().Add(-time.Hour).Unix() // when the worker reckoned, with a timeout
			begun := time.Now().Truncate(time.Second)
			b.out.Post(wire.Message{
				Kind: wire.Start, ID: id(1), Argv: []string{"kept"}, MaxOutput: 1 << 20, Pool: "mail",
				Limit: wire.Limit{Timeout: 10 * time.Minute},
				Vars:  []string{"JOBD_ATTEMPT=1", fmt.Sprint("JOBD_DEADLINE=", longAgo), work(mode, "echo $JOBD_DEADLINE", `print $ENV{JOBD_DEADLINE}`)},
			})
			out := strings.TrimSpace(string(b.done(1).Stdout.Kept))
			if at, err := strconv.ParseInt(out, 10, 64); err != nil || at < begun.Add(10*time.Minute).Unix() || at > time.Now().Add(10*time.Minute).Unix() {
				t.Errorf("it is told %q, and began after %d", out, begun.Unix())
			}
		})
	}
}

// A process without a timeout is told what the worker says.
func TestAJobWithoutATimeoutIsToldAsItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	if done := b.run(1, "JOBD_DEADLINE=12", "DO=echo $JOBD_DEADLINE"); string(done.Stdout.Kept) != "12\n" {
		t.Errorf("done %+v", done)
	}
}
