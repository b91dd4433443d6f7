package exec

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"jobd/exec/board"
	"jobd/journal"
	"pgregory.net/rapid"
)

// leftAlone is a process that goes on without its runner.
type leftAlone struct{ mute }

func (leftAlone) Adopted() bool { return true }

// Which process a job has is told by the process itself, or else by the journal, of the same
// attempt.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		process board.Process
		known   journal.Job
		pid     int
		adopted bool
	}{
		"nothing is known":           {mute{}, journal.Job{Attempt: 1}, 0, false},
		"the journal knows":          {nil, journal.Job{Attempt: 1, Process: &journal.Started{Pid: 7}}, 7, false},
		"it knows of another start":  {nil, journal.Job{Attempt: 2, Process: &journal.Started{Pid: 7}}, 0, false},
		"its runner has left it":     {leftAlone{}, journal.Job{Attempt: 1, Process: &journal.Started{Pid: 7}}, 7, true},
		"it has not been asked for":  {nil, journal.Job{}, 0, false},
		"its runner has not told it": {mute{}, journal.Job{Attempt: 1, Process: &journal.Started{Pid: 8}}, 8, false},
	} {
		s := JobStanding{Standing: board.Standing{Attempt: 1, Process: test.process}}
		if s.identify(test.known); s.Started.Pid != test.pid || s.Adopted != test.adopted {
			t.Errorf("%s: pid %d, adopted %v", name, s.Started.Pid, s.Adopted)
		}
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "",
		"\n \t\r\n":                          "",
		"one":                                "one",
		"one\ntwo\n\n":                       "two",
		"one\r\ntwo\r\n":                     "two",
		"a\tb\x00\x07\x1b[2Jc":               "a b[2Jc",
		"\xff\xfe":                           "\ufffd",
		"x\u202edetrever\u2066 \u2028y":      "xdetrever y",
		"progress 1%\rprogress 100%\r":       "progress 100%",
		strings.Repeat("x\n", 1<<20) + "end": "end",
	} {
		if got := lastLine(journal.Output{Kept: []byte(text)}); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1<<20), strings.Repeat("€", 1<<20)} {
		if got := lastLine(journal.Output{Kept: []byte(long)}); len(got) > mostOfLine || len(got) < mostOfLine-5 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a long line: %q of %d bytes", got, len(got))
		}
	}
}

// In any stretch of time there are no more starts than come into hand in it, and one second's worth
// before; a start that comes when the bucket says so finds room.
func TestABucketKeepsItsRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b bucket
		now := time.Unix(1_800_000_000, 0)
		r := Rate{Starts: rapid.IntRange(1, 200).Draw(t, "starts"), Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per")}
		b.set(r, now)
		if room := b.room(0, now); b.perSecond() < 20 && room != 1 {
			t.Fatalf("it begins with room for %d, want 1", room)
		}
		var starts []time.Time
		claimed := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "wait")))
			case 1:
				claimed += rapid.IntRange(0, b.room(claimed, now)).Draw(t, "claim")
			case 2:
				if claimed > 0 {
					b.take(now)
					claimed, starts = claimed-1, append(starts, now)
				}
			case 3:
				if due := b.due(claimed, now); !due.IsZero() {
					if now = due; b.room(claimed, now) < 1 {
						t.Fatalf("no room at %s, when there should be: %v in hand, %d claimed", due, b.limit.TokensAt(now), claimed)
					}
				}
			}
		}
		for i := range starts {
			for k := i; k < len(starts); k++ {
				most := float64(b.burst()) + b.perSecond()*starts[k].Sub(starts[i]).Seconds()
				if n := k - i + 1; float64(n) > most+0.001 {
					t.Fatalf("%d starts in %s, at most %.2f are allowed", n, starts[k].Sub(starts[i]), most)
				}
			}
		}
	})
}

// Each restart gave one start beyond the rate: the bucket began with one in hand.
func TestARateHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for before, want := range map[time.Duration]float64{
		0: 0, 750 * time.Millisecond: 0.25, 2 * time.Second: 2. / 3, 3 * time.Second: 1, time.Hour: 1, -time.Hour: 1,
	} {
		b := bucket{last: now.Add(-before)}
		b.set(Rate{Starts: 20, Per: time.Minute}, now)
		if got := b.limit.TokensAt(now); math.Abs(got-want) > 0.001 {
			t.Errorf("%s after the last start %.3f starts are in hand, want %.3f", before, got, want)
		}
	}
}

// A bucket that is full up with claims which have not started does not wake anybody again and again.
func TestABucketThatWaitsForStartsIsNotDue(t *testing.T) {
	t.Parallel()
	var b bucket
	now := time.Now()
	b.set(Rate{Starts: 1000, Per: time.Second}, now)
	now = now.Add(time.Hour)
	for claimed := range 2000 {
		due := b.due(claimed, now)
		if claimed >= b.burst() && !due.IsZero() {
			t.Fatalf("%d claimed: due at %s", claimed, due)
		}
		if !due.IsZero() && b.room(claimed, due) < 1 {
			t.Fatalf("%d claimed: no room when it is due", claimed)
		}
	}
}

func TestARateThatIsNoneLimitsNothing(t *testing.T) {
	t.Parallel()
	var b bucket
	b.set(Rate{Starts: 1, Per: time.Hour}, time.Now())
	b.set(Rate{}, time.Now())
	b.take(time.Now())
	if due := b.due(5, time.Now()); b.limit != nil || !due.IsZero() {
		t.Errorf("due at %s", due)
	}
}
