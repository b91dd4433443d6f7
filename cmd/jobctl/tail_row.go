package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	jobnet "jobd/net"
	"jobd/net/api"
)

// fromRow shows what the row has of a job that has ended and that no journal in reach tells of: the
// end of each stream, as the first worker that can read the table gives it.
func (f *follower) fromRow(ctx context.Context) error {
	query := api.ExplainQuery{IDs: []jobnet.Whole{f.job}, Output: true}
	fleet, err := askFleet[api.Explained](ctx, f.client, api.Explain.Name, query)
	for _, one := range fleet {
		if one.err != nil || len(one.answer.Jobs) != 1 || one.answer.Jobs[0].Row == nil {
			continue
		}
		f.over = true
		row := one.answer.Jobs[0].Row
		answer := api.JobOutput{Job: f.job, State: api.OutputEnded, Stdout: endOfText(row.Stdout), Stderr: endOfText(row.Stderr)}
		if f.json() {
			return f.printJSON(struct {
				api.JobOutput
				Row bool `json:"row"` // it is what the row has
			}{answer, true})
		}
		f.note(fmt.Errorf("job %d: no journal that was asked tells of its end; this is what its row has", f.job))
		for i, part := range []api.OutputPart{answer.Stdout, answer.Stderr} {
			if part.Skipped > 0 {
				f.note(fmt.Errorf("%s bytes of %s before these are in the row only", humanize.Comma(part.Skipped), [2]string{"stdout", "stderr"}[i]))
			}
			bytes := part.Bytes
			if f.lines >= 0 {
				bytes = lastLines(bytes, f.lines)
			}
			if err := f.tube.write(i, bytes); err != nil {
				return err
			}
		}
		return f.tube.flush()
	}
	unread := fmt.Errorf("job %d: nobody who was asked has its output; what there is of it is in the row", f.job)
	return errors.Join(unread, err)
}

// endOfText is the end of a column of output.
func endOfText(text api.JobText) api.OutputPart {
	at := max(0, text.Size-int64(len(text.Tail)))
	return api.OutputPart{At: at, Bytes: []byte(text.Tail), Size: text.Size, Skipped: at}
}
