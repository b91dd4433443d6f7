package main

import (
	"context"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

// neverRun adds rows that were ignored because they say what can't be, of each the newest such event
// where no failed end is newer. Those that somebody cancelled, or ran by hand though they waited, are
// not among them: whoever did it knows. It tells how many events were read. Such an event names no
// target: the rows tell that.
func (p *program) neverRun(ctx context.Context, j *journals, w failedWish, most int, newest map[int64]*failure) (n int, err error) {
	q := history.Query{Kinds: []journal.Kind{journal.KindIgnored}, Since: w.since.at, Last: most}
	for e, err := range j.events(ctx, q) {
		if err != nil {
			return 0, err
		}
		n++
		ignored, _ := e.item.Payload.(journal.Ignored)
		if !ignored.Told {
			continue
		}
		f := &failure{
			job: e.item.Job, worker: e.source.worker(), from: e.source.link(), ended: e.item.Time, ignored: true,
			done: journal.Done{Reason: ignored.Reason}, line: clean(ignored.Reason),
		}
		if before := newest[f.job]; before == nil || !f.ended.Before(before.ended) {
			newest[f.job] = f
		}
	}
	return n, nil
}
