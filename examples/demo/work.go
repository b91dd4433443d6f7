package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	background = 500 // jobs that the workers find in the table
	manual     = 21  // jobs that are run by name, the last of which is killed
	killed     = background + manual

	recurring = killed + 1 // a job that recurs
	retried   = killed + 2 // one that fails, and is tried again
	all       = retried
)

// every is the schedule of the job that recurs, and interval the seconds between two of its runs.
const (
	every    = "every 2s"
	interval = 2
)

// job is what the application asks for, and what must become of it.
type job struct {
	id      int64
	target  string
	status  string
	created time.Time

	schedule sql.NullString
}

// jobs are all of the demo's jobs, spread over the three targets.
func jobs(from, to int, status string) []job {
	targets := []string{"shared", "north", "south"}
	var all []job
	for id := from; id <= to; id++ {
		all = append(all, job{id: int64(id), target: targets[id%len(targets)], status: status, created: time.Now()})
	}
	return all
}

// comingAgain are the job that recurs and the one that is tried again.
func comingAgain() []job {
	return []job{
		{id: recurring, target: "later", status: "waiting", created: time.Now(), schedule: sql.NullString{String: every, Valid: true}},
		{id: retried, target: "later", status: "waiting", created: time.Now()},
	}
}

func (j job) String() string { return fmt.Sprintf("%s:%d", j.target, j.id) }

// work inserts the jobs and has them run: background ones by poking, manual ones by name.
func (s *site) work(ctx context.Context, t *table) error {
	fmt.Fprintf(s.stdout, "demo: a master and the workers north and south run; inserting %d background jobs\n", background)
	if err := t.insert(ctx, jobs(1, background, "waiting")); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "demo: and one that recurs, %s, and one that fails at first\n", every)
	if err := t.insert(ctx, comingAgain()); err != nil {
		return err
	}
	if err := s.show(ctx, "poke", "shared", "north", "south", "later"); err != nil {
		return err
	}
	byHand := jobs(background+1, background+manual, "manual")
	if err := t.insert(ctx, byHand); err != nil {
		return err
	}
	if err := s.runManual(ctx, byHand[:manual-1]); err != nil {
		return err
	}
	if err := s.killOne(ctx, byHand[manual-1]); err != nil {
		return err
	}
	return s.awaitDone(ctx, t)
}

// runManual runs all jobs in one request. jobctl exits with 1 when one of them fails, as one must.
func (s *site) runManual(ctx context.Context, some []job) error {
	args := []string{"run-manual"}
	for _, j := range some {
		args = append(args, j.String())
	}
	fmt.Fprintf(s.stdout, "\n$ jobctl %s %s … %s\n", args[0], args[1], args[len(args)-1])
	said, err := s.jobctl(ctx, args...)
	mustFail := slices.ContainsFunc(some, func(j job) bool { return wanted(j.id).result == "fail" })
	if (err != nil) != mustFail {
		return fmt.Errorf("run-manual: one of the jobs fails: %t; but jobctl: %v", mustFail, err)
	}
	for _, j := range some {
		if want := wanted(j.id); !strings.Contains(said, want.stdout) || !strings.Contains(said, want.stderr) {
			return fmt.Errorf("run-manual: the output of job %d is missing in what jobctl printed:\n%s", j.id, said)
		}
	}
	fmt.Fprintf(s.stdout, "(%d jobs, with their output)\n", len(some))
	return nil
}

// killOne starts a job that would run for minutes, and ends it by a signal
// while its client waits for it.
func (s *site) killOne(ctx context.Context, j job) error {
	waiting := make(chan error, 1)
	go func() {
		_, err := s.jobctl(ctx, "run-manual", j.String())
		waiting <- err
	}()
	err := await(ctx, fmt.Sprintf("job %d to start", j.id), func() bool { return s.starts()[j.id] > 0 })
	if err != nil {
		return err
	}
	if err := s.show(ctx, "send-signal", "TERM", j.String()); err != nil {
		return err
	}
	if err := <-waiting; err == nil {
		return fmt.Errorf("run-manual of job %d ended well, although the job was killed", j.id)
	}
	return nil
}

// awaitDone waits until all jobs are done but the one that recurs, and that one has run again.
func (s *site) awaitDone(ctx context.Context, t *table) error {
	return await(ctx, "all jobs to be done, and the one that recurs to run again", func() bool {
		var open int
		err := t.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM jobs WHERE status <> 'done' AND id <> ?", recurring).Scan(&open)
		return err == nil && open == 0 && s.starts()[recurring] > 1
	})
}

// settledRows reads the whole table at a moment at which the job that recurs does not run.
func (s *site) settledRows(ctx context.Context, t *table) (rows []row, err error) {
	awaited := await(ctx, fmt.Sprintf("job %d to be delayed until its next run", recurring), func() bool {
		rows, err = t.rows(ctx)
		return err != nil || slices.ContainsFunc(rows, func(r row) bool { return r.id == recurring && r.status == "delayed" })
	})
	return rows, errors.Join(err, awaited)
}

// starts tells how often each job was started, by the oracle.
func (s *site) starts() map[int64]int {
	content, err := os.ReadFile(s.oracle)
	if err != nil {
		return nil // no job was started yet
	}
	starts := map[int64]int{}
	for line := range strings.Lines(string(content)) {
		var id int64
		if _, err := fmt.Sscanf(line, "%d\n", &id); err == nil {
			starts[id]++
		}
	}
	return starts
}
