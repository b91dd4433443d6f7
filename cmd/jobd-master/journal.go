package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/refusals"
	"jobd/cmd/internal/version"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
)

// openAgain is how long a journal that can't be written is left alone.
const openAgain = 5 * time.Second

// How many events registrations have: of one worker ten a minute, of all 20,000 at once (each of as many
// workers as a master takes comes and goes) and then one a second. The others are counted.
const (
	ofOne, ofOneEvery = 10, 6 * time.Second
	ofAll, ofAllEvery = 20_000, time.Second
	mostTold          = 10_000 // workers that are told apart
)

// What one event holds at most.
const (
	mostJobs    = 10_000
	mostTargets = 100
)

// record is the master's journal. Changes that it can't take are refused; everything else goes on without
// it: pokes, questions, registrations. A journal that failed is opened anew once in a while, so that the
// history has a run without an end where events may be missing.
//
// The crash argument: a change is durable before the first worker is asked. Killed behind that, the event
// stands and nothing was done, or the workers' journals say what was. What was refused is journalled before
// the client hears of it; registrations a moment after they count. A kill loses those of that moment,
// which the next run tells anew, since workers register again.
type record struct {
	config   daemon.Journal
	log      *slog.Logger
	opened   journal.Opened
	refusals *refusals.Requests
	nudge    chan struct{} // holds a token while something waits

	mu      sync.Mutex
	current *eventlog.Log // nil: it can't be written
	since   time.Time     // that it can't
	why     error

	waiting []journal.Draft // registrations, in their order
	untold  int             // those without an event, since the last one that has
	each    map[string]*rate.Limiter
	all     *rate.Limiter
}

// newRecord makes the journal's folder; nil where the configuration names none.
func newRecord(config daemon.Journal, log *slog.Logger) (*record, error) {
	if config.Dir == "" {
		return nil, nil
	}
	dir, err := daemon.MakePrivate(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("journal_dir: %w", cmp.Or(conf.Closed(err, config.Dir), err))
	}
	host, _ := os.Hostname() // without a name it is "" in the history
	config.Dir, config.Log.Dir, config.Log.Logger, config.Log.NoTable = dir, dir, log, true
	r := &record{
		config: config, log: log, nudge: make(chan struct{}, 1),
		opened: journal.Opened{Name: journal.MasterName, Version: version.Version, Pid: os.Getpid(), BootID: eventlog.BootID(), Host: host, Targets: map[string]int{}},
		each:   make(map[string]*rate.Limiter), all: rate.NewLimiter(rate.Every(ofAllEvery), ofAll),
	}
	r.refusals = refusals.New(func(event journal.Payload) error { return r.append(journal.Draft{Payload: event}) }, log)
	return r, nil
}

// begin opens the journal for the first time. One that is damaged, or has no room, does not keep the master
// from its work.
func (r *record) begin() error {
	var damaged *journal.DamagedError
	err := r.open()
	if errors.Is(err, journal.ErrFull) || errors.As(err, &damaged) {
		r.fail(nil, err)
		return nil
	}
	return err
}

// open begins a run in the journal.
func (r *record) open() error {
	j, err := eventlog.Open(context.Background(), r.config.Log)
	if err != nil {
		return cmp.Or(conf.Closed(err, r.config.Dir), err)
	}
	var name string
	var unended bool
	j.View(func(s *journal.State) { name, unended = s.Name, s.Open })
	if name != "" && name != journal.MasterName {
		return errors.Join(fmt.Errorf("journal %s is that of worker '%s': the master needs a folder of its own (key journal_dir)", r.config.Dir, name), j.Close())
	}
	if _, err := j.Append(journal.Draft{Payload: r.opened}); err != nil {
		return errors.Join(err, j.Close())
	}
	if unended {
		r.log.Warn("the run of the master before this one did not end in order: its journal may lack the newest registrations")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.why = j, nil
	return nil
}

// fail ends the use of a log that has failed, or could not be opened.
func (r *record) fail(failed *eventlog.Log, err error) {
	r.mu.Lock()
	is := r.current == failed
	if is {
		r.current, r.why, r.since = nil, err, time.Now()
	}
	r.mu.Unlock()
	if !is { // somebody else has seen it
		return
	}
	r.log.Error("the journal can't be written, and changes are refused; trying again", "error", err, "in", openAgain)
	if failed != nil {
		_ = failed.Close() // it has failed
	}
}

// append journals events, and before them what waits.
func (r *record) append(drafts ...journal.Draft) error {
	r.mu.Lock()
	j, err, waited := r.current, r.why, r.waiting
	r.waiting = nil
	r.mu.Unlock()
	if drafts = append(waited, drafts...); j != nil && len(drafts) > 0 {
		if _, err = j.Append(drafts...); err != nil {
			r.fail(j, err)
		}
	}
	if err != nil {
		r.mu.Lock()
		r.untold += len(waited)
		r.mu.Unlock()
	}
	return err
}

// Requested implements master.Recorder.
func (r *record) Requested(c master.Change) error {
	named := c.Jobs[:min(len(c.Jobs), mostJobs)]
	event := journal.Requested{Request: c.Request, Jobs: named, More: len(c.Jobs) - len(named), By: c.By}
	if len(named) == 0 {
		event.About = refusals.About(c.Data)
	}
	err := r.room()
	if err == nil {
		err = r.append(journal.Draft{Payload: event})
	}
	if err != nil {
		return jobnet.Refusef("nothing was changed: the master can't journal who asked: %v", err)
	}
	return nil
}

// Refused implements master.Recorder.
func (r *record) Refused(c master.Change, reason string) {
	r.refusals.Note(journal.Refused{Request: c.Request, About: refusals.About(c.Data), Reason: reason, By: c.By})
}

// Registered implements master.Recorder.
func (r *record) Registered(worker string, targets []string, by string) {
	named := make([]string, min(len(targets), mostTargets))
	for i := range named {
		named[i] = jobnet.Excerpt(targets[i])
	}
	r.note(worker, func(untold int) journal.Payload {
		return journal.Registered{Worker: jobnet.Excerpt(worker), Targets: named, More: len(targets) - len(named), By: by, Times: untold}
	})
}

// Left implements master.Recorder.
func (r *record) Left(worker, reason, by string) {
	r.note(worker, func(untold int) journal.Payload {
		return journal.Left{Worker: jobnet.Excerpt(worker), Reason: reason, By: by, Times: untold}
	})
}

// note has an event about a worker journalled soon, or counts it.
func (r *record) note(worker string, event func(untold int) journal.Payload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.each[worker] == nil {
		if len(r.each) >= mostTold {
			clear(r.each)
		}
		r.each[worker] = rate.NewLimiter(rate.Every(ofOneEvery), ofOne)
	}
	if !r.each[worker].Allow() || !r.all.Allow() {
		r.untold++
		return
	}
	r.waiting = append(r.waiting, journal.Draft{Payload: event(r.untold)})
	r.untold = 0
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// Run journals what waits, and keeps the journal in order, until ctx ends.
func (r *record) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { r.keep(ctx) })
	for {
		select {
		case <-r.nudge:
			_ = r.append() // fail has told of it
		case <-ctx.Done():
			return nil
		}
	}
}

// keep maintains the journal, and opens it anew where it has failed.
func (r *record) keep(ctx context.Context) {
	again := time.NewTicker(openAgain)
	defer again.Stop()
	for {
		r.mu.Lock()
		j := r.current
		r.mu.Unlock()
		if j != nil {
			_ = j.Run(ctx) // until it is closed; it has no error
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if j == nil && r.open() == nil {
			r.log.Warn("the journal can be written again")
		}
	}
}

// troubles says why changes are refused.
func (r *record) troubles() []api.NotReady {
	r.mu.Lock()
	since, why := r.since, r.why
	r.mu.Unlock()
	if why == nil {
		since, why = time.Time{}, r.room()
	}
	if why == nil {
		return nil
	}
	return []api.NotReady{{What: "journal", Why: why.Error(), Since: since}}
}

// room says whether the journal's disk has too little room.
func (r *record) room() error {
	free, need, err := r.config.Room(r.config.Dir)
	if err == nil && free < need {
		err = fmt.Errorf("only %d MiB of the disk of %s are free, and %d MiB are needed (key journal_min_free)", free>>20, r.config.Dir, need>>20)
	}
	return err
}

// close journals that the run has ended in order, if it has begun. Where that fails the next start says
// that it did not.
func (r *record) close() {
	r.mu.Lock()
	j := r.current
	r.mu.Unlock()
	if j == nil {
		return
	}
	var last []journal.Draft
	for _, event := range r.refusals.LastWords() {
		last = append(last, journal.Draft{Payload: event})
	}
	err := r.append(append(last, journal.Draft{Payload: journal.Closed{Reason: "stopped"}})...)
	if err = errors.Join(err, j.Close()); err != nil {
		r.log.Warn("the journal lacks the end of this run", "error", err)
	}
}
