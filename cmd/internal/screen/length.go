package screen

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// Length is a length of time as people read it, in its two largest units: 5s, 2m3s, 1h2m, 3d4h.
func Length(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	d = max(0, d).Round(time.Second)
	for i, unit := range units[:3] {
		if n := d / unit.size; n > 0 {
			next := units[i+1]
			return fmt.Sprintf("%d%s%d%s", n, unit.name, d%unit.size/next.size, next.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// ShortLength is Length, but of what is shorter than ten seconds to the hundredth: of processor
// time most is.
func ShortLength(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2fs", max(0, d).Seconds())
	}
	return Length(d)
}

// Count is a number of things: 1 job, 2,935 jobs.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return humanize.Comma(int64(n)) + " " + thing + "s"
}
