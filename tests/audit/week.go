package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
)

// monday is when the generated week begins.
var monday = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

// workers are the workers of the week, and what they serve.
var workers = []struct {
	name    string
	targets map[string]int
}{
	{"node-1", map[string]int{"mail": 2, "report": 1}},
	{"node-2", map[string]int{"mail": 3}},
	{"node-3", map[string]int{"report": 1, "video/high": 2}},
}

// happening is an event of the week before it is journalled.
type happening struct {
	at    time.Time
	draft journal.Draft
}

// writeWeek writes a journal for each worker into folders of their names: 7 days, daily restarts, one crash,
// jobs of which some fail, are killed, released or taken away. It is the same week in every run.
func writeWeek(dir string) error {
	for i, w := range workers {
		week := &week{random: rand.New(rand.NewPCG(2026, uint64(i))), worker: w.name, targets: w.targets, id: int64(i*1000) + 1}
		week.live()
		path := filepath.Join(dir, w.name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := write(path, week.happenings); err != nil {
			return fmt.Errorf("write the week of %s: %w", w.name, err)
		}
	}
	return nil
}

// write journals happenings at their times, in segments of a day, all sealed but the newest.
func write(dir string, happenings []happening) (err error) {
	now := monday
	j, err := eventlog.Open(context.Background(), eventlog.Config{
		Dir: dir, Now: func() time.Time { return now }, SegmentAge: 24 * time.Hour,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for _, h := range happenings {
		now = h.at
		if _, err := j.Append(h.draft); err != nil {
			return err
		}
	}
	return j.Maintain(context.Background())
}

// week makes up what happens to one worker.
type week struct {
	random     *rand.Rand
	worker     string
	targets    map[string]int
	id         int64
	happenings []happening
}

func (w *week) add(at time.Time, job int64, payload journal.Payload) {
	w.happenings = append(w.happenings, happening{at.Truncate(time.Microsecond), journal.Draft{Job: job, Payload: payload}})
}

func (w *week) live() {
	opened := journal.Opened{Name: w.worker, Version: "1.0.0", Pid: 400, BootID: "b0", Targets: w.targets}
	w.add(monday, 0, opened)
	for day := range 7 {
		midnight := monday.AddDate(0, 0, day)
		w.day(midnight)
		opened.Pid++
		switch {
		case day == 2 && w.worker == "node-2":
			w.add(midnight.Add(23*time.Hour+40*time.Minute), 0, opened) // after a crash
		case day < 6:
			w.add(midnight.Add(23*time.Hour), 0, journal.Closed{Reason: "SIGTERM"})
			w.add(midnight.Add(23*time.Hour+20*time.Minute), 0, opened)
		}
	}
	slices.SortStableFunc(w.happenings, func(a, b happening) int { return cmp.Compare(a.at.UnixMicro(), b.at.UnixMicro()) })
}

// day adds a day's jobs of each target, one after the other in each slot.
func (w *week) day(midnight time.Time) {
	for _, target := range slices.Sorted(maps.Keys(w.targets)) {
		for range w.targets[target] {
			at := midnight.Add(time.Duration(6*3600+w.random.IntN(3600)) * time.Second)
			for at.Before(midnight.Add(22 * time.Hour)) {
				at = w.job(at, target).Add(time.Duration(20+w.random.IntN(100)) * time.Minute)
			}
		}
	}
}

// job adds one job's life and gives its end.
func (w *week) job(at time.Time, target string) time.Time {
	id := w.id
	w.id++
	after := func(most time.Duration) time.Time {
		at = at.Add(time.Duration(1 + w.random.Int64N(int64(most))))
		return at
	}
	w.add(at, id, journal.Accepted{Target: target, Token: fmt.Sprintf("@%s%05d", mark[w.worker], id)})
	switch w.random.IntN(40) {
	case 0:
		w.add(after(time.Second), id, journal.Released{Reason: "the worker stops"})
		return at
	case 1:
		w.add(after(time.Second), id, journal.Conflict{Found: &journal.Row{Target: target, Status: "waiting"}, Wanted: "running"})
		return at
	}
	w.add(after(30*time.Second), id, journal.Running{Attempt: 1})
	w.add(after(5*time.Millisecond), id, journal.Started{Pid: int(1000 + id), StartTime: uint64(id), BootID: "b0"})
	end := w.end(id)
	if end.Signal != "" {
		w.add(after(10*time.Minute), id, journal.Signal{Signo: 15, By: "10.0.0.9:4000"})
	}
	w.add(after(10*time.Minute), id, end)
	return at
}

// end makes up how a job ends.
func (w *week) end(id int64) journal.Done {
	done := journal.Done{Result: "ok", Code: new(int)}
	done.Stdout.Kept = fmt.Appendf(nil, "job %d did its work\n", id)
	switch w.random.IntN(12) {
	case 0:
		*done.Code = 3
		done.Result, done.Stderr.Kept = "fail", []byte("no route to host\n")
	case 1:
		done = journal.Done{Result: "fail", Signal: "SIGTERM"}
	}
	done.Stdout.Size, done.Stderr.Size = int64(len(done.Stdout.Kept)), int64(len(done.Stderr.Kept))
	return done
}

// mark is the part of a token that tells the worker.
var mark = map[string]string{"node-1": "k3vf", "node-2": "q7zt", "node-3": "a4mu"}
