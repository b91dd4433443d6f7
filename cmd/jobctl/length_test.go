package main

import (
	"testing"
	"time"
)

// Flags that are lengths of time are written as in the configuration, and say what is allowed.
func TestLengthFlags(t *testing.T) {
	t.Parallel()
	const allowed = ` is not allowed; allowed is a number of seconds, or a duration such as 500ms, 30s or 2m, from 0s to 1h0m0s`
	for text, want := range map[string]any{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "0": time.Duration(0), "1m30s": 90 * time.Second, "1h": time.Hour,
		"x": `"x"` + allowed, "-1": `"-1"` + allowed, "61m": `"61m"` + allowed, "": `""` + allowed, "1d": `"1d"` + allowed,
	} {
		length := time.Duration(-1)
		var got any
		if err := span(&length, 0, time.Hour)(text); err != nil {
			got = err.Error()
		} else {
			got = length
		}
		if got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// On a terminal of 80 columns the times of statistics stand in one line, whatever they are.
func TestTimesOfStatisticsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		12 * time.Microsecond: "12µs", 306838 * time.Microsecond: "307ms", 4812 * time.Millisecond: "4.81s",
		20003 * time.Millisecond: "20s", 41499 * time.Millisecond: "41.5s", 113 * time.Second: "1m53s", 6725 * time.Second: "1h52m",
	} {
		if got := brief(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
