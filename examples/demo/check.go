package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
)

// outcome is how a job must end.
type outcome struct {
	result, stdout, stderr, signal string
	code                           int64 // -1: none
}

// wanted is what launch.sh makes of a job.
func wanted(id int64) outcome {
	switch {
	case id == killed:
		return outcome{result: "fail", signal: "SIGTERM", code: -1}
	case id%100 == 15 || id%100 == 65:
		return outcome{result: "fail", code: 3, stderr: fmt.Sprintf("job %d cannot do it\n", id)}
	}
	return outcome{result: "ok", stdout: fmt.Sprintf("result of job %d\n", id)}
}

// report shows what happened, the way an operator would look at it, and checks it.
func (s *site) report(ctx context.Context, t *table) error {
	if err := s.show(ctx, "list-workers"); err != nil {
		return err
	}
	rows, err := s.settledRows(ctx, t)
	if err != nil {
		return err
	}
	s.summary(rows)
	if err := s.showComingAgain(ctx); err != nil {
		return err
	}
	if err := s.showJournals(ctx); err != nil {
		return err
	}
	if err := s.check(rows); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "\ndemo: %d background and %d manual jobs, one that recurs and one that was tried again, %d verified\n",
		background, manual, len(rows))
	return nil
}

// showComingAgain prints the story of the job that was tried again, and the row that recurs.
func (s *site) showComingAgain(ctx context.Context) error {
	for _, id := range []int{retried, recurring} {
		if err := s.show(ctx, "show", fmt.Sprintf("later:%d", id)); err != nil {
			return err
		}
	}
	return nil
}

// showJournals prints what the journal knows of the killed job, and verifies both journals.
func (s *site) showJournals(ctx context.Context) error {
	shown := 0
	var unknown error
	for _, w := range workers {
		// Only one of them ran the job; the other says that it does not know it.
		said, err := s.jobctl(ctx, "journal", "show", "--journal", s.journal(w.name), fmt.Sprint(killed))
		if err != nil {
			unknown = err
			continue
		}
		fmt.Fprintf(s.stdout, "\n$ jobctl journal show --journal journal-%s %d\n%s", w.name, killed, said)
		shown++
	}
	if shown != 1 {
		return errors.Join(fmt.Errorf("job %d is in %d journals, want one", killed, shown), unknown)
	}
	for _, w := range workers {
		if err := s.show(ctx, "journal", "verify", "--journal", s.journal(w.name)); err != nil {
			return err
		}
	}
	return nil
}

// summary counts the rows by status and result.
func (s *site) summary(rows []row) {
	type group struct{ target, status, result string }
	counts := map[group]int{}
	for _, r := range rows {
		counts[group{r.target, r.status, r.result.String}]++
	}
	fmt.Fprintln(s.stdout, "\nthe table:")
	out := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TARGET\tSTATUS\tRESULT\tJOBS")
	for _, target := range []string{"shared", "north", "south"} {
		for _, result := range []string{"ok", "fail"} {
			g := group{target, "done", result}
			fmt.Fprintf(out, "%s\t%s\t%s\t%d\n", g.target, g.status, g.result, counts[g])
			delete(counts, g)
		}
	}
	again := group{"later", "delayed", "ok"}
	for _, g := range []group{{"later", "done", "ok"}, again} {
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\n", g.target, g.status, g.result, counts[g])
		delete(counts, g)
	}
	for g, n := range counts { // none, if all is well
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\n", g.target, g.status, g.result, n)
	}
	out.Flush()
}

// check compares every row, and how often its job was started, with what must be.
func (s *site) check(rows []row) error {
	var wrong []error
	if len(rows) != all {
		wrong = append(wrong, fmt.Errorf("%d rows, want %d", len(rows), all))
	}
	starts := s.starts()
	for _, r := range rows {
		if r.id == recurring {
			wrong = append(wrong, checkRecurring(r, starts[r.id]))
			continue
		}
		if r.status != "done" || r.outcome() != wanted(r.id) || r.started == 0 || r.finished < r.started {
			wrong = append(wrong, fmt.Errorf("job %d: %s %+v, from %d to %d; want %+v", r.id, r.status, r.outcome(), r.started, r.finished, wanted(r.id)))
		}
		want := 1
		if r.id == retried {
			want = 2
		}
		if starts[r.id] != want {
			wrong = append(wrong, fmt.Errorf("job %d was started %d times, want %d", r.id, starts[r.id], want))
		}
	}
	return errors.Join(wrong...)
}

// checkRecurring looks at the row that recurs: it has what its last run has left, and waits for the
// next one, a whole number of intervals after the first.
func checkRecurring(r row, starts int) error {
	switch {
	case r.outcome() != wanted(r.id):
		return fmt.Errorf("job %d: %+v, want %+v", r.id, r.outcome(), wanted(r.id))
	case r.due != r.planned || r.planned <= r.started || r.planned > r.finished+interval || r.attempts != 0:
		return fmt.Errorf("job %d ran from %d to %d, and comes again at %d, planned for %d, attempt %d", r.id, r.started, r.finished, r.due, r.planned, r.attempts)
	case starts < 2:
		return fmt.Errorf("job %d was started %d times, and recurs", r.id, starts)
	}
	return nil
}

// outcome is how the job ended, by its row.
func (r row) outcome() outcome {
	o := outcome{
		result: r.result.String, stdout: r.stdout.String, stderr: r.stderr.String,
		signal: strings.TrimSpace(r.signal.String), code: -1,
	}
	if r.code.Valid {
		o.code = r.code.Int64
	}
	return o
}
