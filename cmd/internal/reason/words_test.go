package reason

import (
	"testing"
	"time"
)

// Seconds of which there are none are left out, and no others.
func TestHowLongSomethingTook(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		12345678: "12ms", 1234567890: "1.2s", time.Minute: "1m", 100 * time.Second: "1m40s", 70 * time.Second: "1m10s",
		10 * time.Minute: "10m", time.Hour: "1h0m", time.Hour + 20*time.Second: "1h0m20s", time.Hour + 10*time.Minute: "1h10m",
	} {
		if got := lengthy(d); got != want {
			t.Errorf("%v is told as %s, want %s", d.Nanoseconds(), got, want)
		}
	}
}

func TestWhoIsNamed(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{
		"10.0.0.5:4711": "10.0.0.5", "10.0.0.5:4711 via master 10.0.0.1:7081": "10.0.0.5", "uid 33 pid 4711": "uid 33 pid 4711",
		"ann (token, 10.0.0.5:4711)": "ann", "ann (uid, uid 33 pid 4711) via unverified master 10.0.0.1:7081": "ann", "": "",
	} {
		if got := whoOf(by); got != want {
			t.Errorf("%q: %q, want %q", by, got, want)
		}
	}
}
