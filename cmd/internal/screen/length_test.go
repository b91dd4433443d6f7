package screen

import (
	"testing"
	"time"
)

func TestLengthsOfTime(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 400 * time.Millisecond: "0s", 59 * time.Second: "59s", 59600 * time.Millisecond: "1m0s",
		61 * time.Second: "1m1s", time.Hour - time.Second: "59m59s", 76 * time.Hour: "3d4h",
		25*time.Hour + 59*time.Minute: "1d1h", 400 * 24 * time.Hour: "400d0h",
	} {
		if got := Length(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0.00s", 350 * time.Millisecond: "0.35s", 10 * time.Second: "10s", 61 * time.Second: "1m1s",
	} {
		if got := ShortLength(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
