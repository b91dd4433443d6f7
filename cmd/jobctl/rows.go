package main

import (
	"context"
	"errors"
	"slices"

	"jobd/cmd/internal/history"
	"jobd/net/api"
)

// rowsOnce is how many rows are asked for together.
const rowsOnce = 1000

// rows reads what the table says of jobs, without locks, through the first worker that can: they
// share it. Where none can, what was read is given with the error.
func (j *journals) rows(ctx context.Context, ids []int64) (map[int64]history.Row, error) {
	found := make(map[int64]history.Row, len(ids))
	at := 0 // the worker that is asked; those before it could not tell
	var failed []error
	for some := range slices.Chunk(ids, rowsOnce) {
		for {
			if at == len(j.remotes) {
				return found, errors.Join(append(failed, errNobody)...)
			}
			var answer history.RowsAnswer
			err := j.remotes[at].ask(ctx, api.JournalRows, map[string]any{"ids": whole(some)}, &answer)
			if ctx.Err() != nil {
				return found, err
			}
			if err != nil {
				failed = append(failed, named(j.remotes[at], err))
				at++
				continue
			}
			for _, row := range answer.Rows {
				found[int64(row.Job)] = row
			}
			break
		}
	}
	return found, nil
}

// errNobody says that no worker could be asked.
var errNobody = errors.New("no worker can read the table now")
