package rule

import (
	"cmp"
	"slices"

	"jobd/store"
)

// CountAhead tells how many rows wait before each waiter, counted up to most. count gives how many
// wait of a target from one id on and before another one, counted up to a limit; the first stretch
// of a target has no beginning. So each stretch between two waiters is looked at once.
func CountAhead(
	waiters []store.Waiter, most int, count func(target string, from *int64, before int64, limit int) (int, error),
) (map[int64]store.Ahead, error) {
	sorted := slices.Clone(waiters)
	slices.SortFunc(sorted, func(a, b store.Waiter) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Job, b.Job))
	})
	ahead := make(map[int64]store.Ahead, len(sorted))
	rows := 0
	for i, one := range sorted {
		var from *int64
		if i > 0 && sorted[i-1].Target == one.Target {
			from = &sorted[i-1].Job
		} else {
			rows = 0
		}
		if rows <= most {
			more, err := count(one.Target, from, one.Job, most-rows+1)
			if err != nil {
				return nil, err
			}
			rows += more
		}
		ahead[one.Job] = store.Ahead{Rows: min(rows, most), More: rows > most}
	}
	return ahead, nil
}

// Stretch is the condition that rows of a target wait whose ids are in such a stretch.
func Stretch(target string, from *int64, before int64) (condition string, args []any) {
	condition, args = "status = 'waiting' AND target = ? AND id < ?", []any{target, before}
	if from != nil {
		condition, args = condition+" AND id >= ?", append(args, *from)
	}
	return condition, args
}
