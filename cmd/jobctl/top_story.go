package main

import (
	"bytes"
	"context"
	"strings"

	"jobd/cmd/jobctl/live"
)

// Story implements live.Source: where the job is, and what the journal of its worker tells of it.
func (s *topSource) Story(ctx context.Context, job live.Job) (lines []string, err error) {
	err = s.link.use(ctx, func(c *client) error {
		var text bytes.Buffer
		printing := *s.p
		printing.out, printing.terminal = &text, false
		r := &remote{client: c, name: job.Worker, address: job.Address}
		if job.Address == "" {
			r.name = "" // there is nothing to tell apart
		}
		told := story{program: &printing, journals: &journals{sources: []source{r}, remotes: []*remote{r}, note: func(error) {}}}
		err := told.tell(ctx, int64(job.Job))
		lines = append([]string{s.sentence(ctx, c, job), ""}, strings.Split(strings.TrimRight(text.String(), "\n"), "\n")...)
		return err
	})
	return lines, err
}
