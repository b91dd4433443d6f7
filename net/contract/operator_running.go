package contract

import (
	"cmp"
	"slices"
)

// SortRunning puts running jobs into one of the orders. What is not known comes last, and those
// that are alike come by age. The function of gives the job of what is sorted.
func SortRunning[T any](jobs []T, order string, of func(*T) *RunningJob) {
	slices.SortFunc(jobs, func(one, other T) int {
		a, b, first := of(&one), of(&other), 0
		switch order {
		case SortCPU:
			first = moreFirst(a.CPU, b.CPU)
		case SortMemory:
			first = moreFirst(a.Memory, b.Memory)
		}
		return cmp.Or(first, cmp.Compare(a.Since, b.Since), cmp.Compare(a.Job, b.Job))
	})
}

func moreFirst(a, b *int64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*b, *a)
}
