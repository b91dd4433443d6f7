package main

import (
	"math"
	"time"
)

// growth is how much wider each bucket of durations is than the one before it, and so the greatest
// error of a percentile.
const growth = 1.02

// durations counts durations in buckets that grow by growth, so that any number of them takes
// little memory. The zero value is ready.
type durations struct {
	buckets map[int]int
	count   int
	longest time.Duration
}

func (d *durations) add(duration time.Duration) {
	if d.buckets == nil {
		d.buckets = make(map[int]int)
	}
	d.buckets[bucketOf(duration)]++
	d.count++
	d.longest = max(d.longest, duration)
}

// bucketOf is the bucket of a duration: those of a microsecond and less share one.
func bucketOf(duration time.Duration) int {
	if duration <= time.Microsecond {
		return 0
	}
	return int(math.Ceil(math.Log(float64(duration)/float64(time.Microsecond)) / math.Log(growth)))
}

// quantile is a duration that the share q of all does not exceed, by nearest rank; 0 of none.
func (d *durations) quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(d.count)))
	highest := bucketOf(d.longest)
	for bucket, seen := 0, 0; bucket <= highest && d.count > 0; bucket++ {
		if seen += d.buckets[bucket]; seen >= rank {
			upper := time.Duration(math.Pow(growth, float64(bucket)) * float64(time.Microsecond))
			return min(upper, d.longest)
		}
	}
	return d.longest
}

// brief prints a duration in three digits or so.
func brief(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
