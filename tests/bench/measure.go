package main

import (
	"slices"
	"sync"
	"time"
)

// How numbers are given.
const (
	megabyte    = 1e6
	millisecond = float64(time.Millisecond)
)

// paired measures the raw limit and the product in turn, so many times each, and gives the medians. The ratio
// is the median of the pairs' own.
func paired(pairs int, raw, product func() float64) reading {
	var raws, products, ratios []float64
	for range pairs {
		r := raw()
		p := product()
		raws, products, ratios = append(raws, r), append(products, p), append(ratios, p/r)
	}
	return reading{value: median(products), raw: median(raws), ratio: median(ratios)}
}

func median(numbers []float64) float64 { return percentile(numbers, 50) }

// percentile is the number that so many hundredths of the numbers do not exceed.
func percentile(numbers []float64, hundredths int) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[(len(sorted)-1)*hundredths/100]
}

// rate is how many a second.
func rate(n int, do func()) float64 {
	begun := time.Now()
	do()
	return float64(n) / time.Since(begun).Seconds()
}

// took is how many milliseconds something takes.
func took(do func()) float64 {
	begun := time.Now()
	do()
	return float64(time.Since(begun)) / millisecond
}

// atOnce calls f in n goroutines and waits for all of them.
func atOnce(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}
