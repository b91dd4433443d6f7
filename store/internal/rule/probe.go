package rule

import (
	"time"

	"jobd/journal"
	"jobd/store"
)

// probeToken looks like a claim's token and is none.
const probeToken = "@" + "000000000"

// Probes are the updates that a claim may make of waiting, manual or delayed rows.
func Probes(ids []int64, uses store.Uses) []Verdict {
	now, from := time.Now().Unix(), fromFree
	if uses.Delays() {
		from = fromAny
	}
	return []Verdict{
		{status: journal.RowAccepted, token: probeToken, from: from, times: times{plannedAt: exactly(now)}, Jobs: ids},
		{status: journal.RowRunning, token: probeToken, from: from, start: now, times: times{plannedAt: exactly(now), attempts: exactly(1)}, Jobs: ids},
	}
}

// ProbeEach tries what a claim makes of its rows, row by row, and tells which are refused, and why.
// Those that are not free are left out; try makes one update and undoes it: its word is the
// server's against it, "" where the server takes it.
func ProbeEach(verdicts []Verdict, free func(ids []int64) ([]int64, error), try func(Verdict) (why string, err error)) (map[int64]string, error) {
	refused := map[int64]string{}
	for _, verdict := range verdicts {
		ids, err := free(verdict.Jobs)
		if err != nil {
			return refused, err
		}
		for _, id := range ids {
			if refused[id] != "" {
				continue
			}
			single := verdict
			single.Jobs = []int64{id}
			why, err := try(single)
			if err != nil {
				return refused, err
			}
			if why != "" {
				refused[id] = why
			}
		}
	}
	return refused, nil
}
