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
	var m measured
	m.pairs(pairs, raw, product)
	return m.reading()
}

// measured is pairs of the raw limit and the product.
type measured struct{ raws, products, ratios []float64 }

// pairs measures more of them. Which of the two comes first changes from pair to pair.
func (m *measured) pairs(n int, raw, product func() float64) {
	for i := range n {
		var r, p float64
		if i%2 == 0 {
			r, p = raw(), product()
		} else {
			p = product()
			r = raw()
		}
		m.raws, m.products, m.ratios = append(m.raws, r), append(m.products, p), append(m.ratios, p/r)
	}
}

func (m *measured) reading() reading {
	return reading{value: median(m.products), raw: median(m.raws), ratio: median(m.ratios)}
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
