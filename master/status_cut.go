package master

import (
	"encoding/json"
	"slices"

	"jobd/net/contract"
)

// workerInfo is what the master tells of a worker.
type workerInfo = contract.FleetWorker[json.RawMessage]

// mostStatusBytes is how much the names of all targets take in a status. Those of one worker fit
// in, the longest there may be; a status is made for each client that asks, and is in memory until
// that client has read it.
const mostStatusBytes = 3 << 20

// statusCost is about how long a target is in a status.
func statusCost(target string) int {
	bytes := len(target) + len(`"",`)
	for _, c := range []byte(target) {
		if c < ' ' {
			bytes += len(`\u0000`) - 1
		}
	}
	return bytes
}

// cutTargets leaves out targets beyond most bytes, and counts them. Those workers lose some that
// have most: all get as many bytes as those with fewer leave over.
func cutTargets(workers []workerInfo, most int) {
	costs := make([]int, len(workers))
	total := 0
	for i, w := range workers {
		for _, target := range w.Targets {
			costs[i] += statusCost(target)
		}
		total += costs[i]
	}
	if total <= most {
		return
	}
	share := fairShare(costs, most)
	for i := range workers {
		w, left := &workers[i], share
		for n, target := range w.Targets {
			if left -= statusCost(target); left < 0 {
				w.TargetsCut = len(w.Targets) - n
				w.Targets = w.Targets[:n:n]
				break
			}
		}
	}
}

// fairShare is how much each may have at most, so that all together have no more than most.
func fairShare(costs []int, most int) int {
	sorted := slices.Sorted(slices.Values(costs))
	for i, cost := range sorted {
		share := most / (len(sorted) - i)
		if cost > share {
			return share
		}
		most -= cost
	}
	return most
}
