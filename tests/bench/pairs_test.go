package main

import "testing"

// The interval of the median by order statistics: the textbook's ranks for a few numbers of pairs.
func TestInterval(t *testing.T) {
	t.Parallel()
	for pairs, rank := range map[int]int{5: 0, 6: 1, 10: 2, 20: 6, 30: 10} {
		var numbers []float64
		for i := range pairs {
			numbers = append(numbers, float64(pairs-i))
		}
		from, to, ok := interval(numbers)
		if ok != (rank > 0) || ok && (from != float64(rank) || to != float64(pairs+1-rank)) {
			t.Errorf("%d pairs: %v to %v, %t; want the ranks %d and %d", pairs, from, to, ok, rank, pairs+1-rank)
		}
	}
}

// A quotient is above one where the new build is better, whichever way the unit counts.
func TestBetterIsAboveOne(t *testing.T) {
	t.Parallel()
	half, third := 0.5, 1.0/3
	for name, test := range map[string]struct{ before, now result }{
		"more jobs a second":           {result{Value: 100, Unit: "jobs/s"}, result{Value: 110, Unit: "jobs/s"}},
		"fewer milliseconds":           {result{Value: 5, Unit: "ms"}, result{Value: 4, Unit: "ms"}},
		"nearer to the limit":          {result{Value: 9, Ratio: &third, Unit: "jobs/s"}, result{Value: 8, Ratio: &half, Unit: "jobs/s"}},
		"nearer to the limit, in time": {result{Value: 4, Ratio: &half, Unit: "ms"}, result{Value: 5, Ratio: &third, Unit: "ms"}},
	} {
		got := noted(nil, []result{test.before}, []result{test.now})
		if len(got) != 1 || got[0].Better[0] <= 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
