package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/refusals"
	"jobd/cmd/internal/version"
	"jobd/journal"
	"jobd/journal/eventlog"
	jobnet "jobd/net"
	"jobd/net/api"
)

// What one event holds, and how many events an hour registrations have: of one worker, and of all, each of
// as many as a master takes having come and gone. The others are counted.
const (
	mostJobs    = 100 // what became of them the workers' journals tell
	mostTargets = 100
	mostWorkers = 20
	mostOfOne   = 60
	mostOfAll   = 20_000
)

// record is the master's journal. Changes that it can't take are refused; everything else goes on without
// it: pokes, questions, registrations.
//
// The crash argument: a change is durable before the first worker is asked. Killed behind that, the event
// stands and nothing was done, or the workers' journals say what was. A kill loses registrations of that
// moment, which the next run tells anew, since workers register again.
type record struct {
	config   daemon.Journal
	log      *slog.Logger
	refusals *refusals.Requests
	journal  *eventlog.Log // nil: it could not be opened

	mu    sync.Mutex
	why   error // the last event could not be journalled; nil: it was
	since time.Time

	hour   time.Time      // when it began
	told   map[string]int // events of registrations in it, by worker
	all    int            // of all
	untold int            // without an event, since the last one that has
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
	config.Dir, config.Log.Dir, config.Log.Logger, config.Log.NoTable = dir, dir, log, true
	r := &record{config: config, log: log}
	r.refusals = refusals.New(r.append, log)
	return r, nil
}

// open begins a run. A journal that is damaged, or has no room, does not keep the master from its work.
func (r *record) open() (err error) {
	var damaged *journal.DamagedError
	r.journal, err = eventlog.Open(context.Background(), r.config.Log)
	if errors.Is(err, journal.ErrFull) || errors.As(err, &damaged) {
		remedy := "keep the folder, give another one (key journal_dir) and restart the master"
		if damaged == nil {
			remedy = "make room on its disk and restart the master"
		}
		r.journal, r.why, r.since = nil, fmt.Errorf("%w; %s", err, remedy), time.Now()
		r.log.Error("the journal can't be opened, and changes are refused", "error", r.why)
		return nil
	}
	if err != nil {
		return cmp.Or(conf.Closed(err, r.config.Dir), err)
	}
	r.journal.View(func(s *journal.State) {
		if s.Name != "" && s.Name != journal.MasterName {
			err = fmt.Errorf("journal %s is that of worker '%s': the master needs a folder of its own (key journal_dir)", r.config.Dir, s.Name)
		} else if s.Open {
			r.log.Warn("the master's run before this one did not end in order: the journal may lack its newest registrations")
		}
	})
	if err != nil {
		return errors.Join(err, r.journal.Close())
	}
	host, _ := os.Hostname()     // without a name it is "" in the history
	_ = r.append(journal.Opened{ // an error is told, and stands in status
		Name: journal.MasterName, Version: version.Version, Pid: os.Getpid(), BootID: eventlog.BootID(), Host: host, Targets: map[string]int{},
	})
	return nil
}

// close journals that the run has ended in order. Where that fails the next start says that it did not.
func (r *record) close() {
	if r.journal == nil {
		return
	}
	for _, event := range r.refusals.LastWords() {
		_ = r.append(event)
	}
	_ = r.append(journal.Closed{Reason: "stopped"})
	if err := r.journal.Close(); err != nil {
		r.log.Warn("the journal was not closed in order", "error", err)
	}
}

// run keeps the journal in order until ctx ends.
func (r *record) run(ctx context.Context) error {
	if r.journal != nil {
		return r.journal.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// append journals an event.
func (r *record) append(event journal.Payload) error {
	if r.journal == nil {
		return r.why
	}
	_, err := r.journal.Append(journal.Draft{Payload: event})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.why == nil {
		r.since = time.Now()
		r.log.Error("the journal can't be written, and changes are refused", "error", err)
	}
	r.why = err
	return err
}

// Requested implements master.Recorder.
func (r *record) Requested(request jobnet.Request, workers []string) error {
	fields := request.Fields()
	slices.Sort(workers)
	workers = slices.Compact(workers)
	event := journal.Requested{
		Request: request.Type, By: request.From.By(),
		Workers: workers[:min(len(workers), mostWorkers)], Others: max(0, len(workers)-mostWorkers),
	}
	event.Jobs, event.More = named(fields)
	for _, told := range []string{"worker", "ids"} {
		delete(fields, told)
	}
	if request.Type != api.RouteManual.Name {
		event.About = refusals.About(fields)
	}
	err := r.room()
	if err == nil {
		err = r.append(event)
	}
	if err != nil {
		return jobnet.Refusef("nothing was changed: the master can't journal who asked: %v", err)
	}
	return nil
}

// Refused implements master.Recorder.
func (r *record) Refused(request jobnet.Request, reason string) {
	fields := request.Fields()
	event := journal.Refused{Request: request.Type, About: refusals.About(fields), Reason: reason, By: request.From.By()}
	event.Jobs, event.More = named(fields)
	r.refusals.Note(event)
}

// named are the jobs that a request names, as ids or as jobs, and how many there are beyond those that are kept.
// A request that was refused may name anything.
func named(fields jobnet.Fields) (jobs []int64, more int) {
	var ids []jobnet.Whole
	var objects []api.SignalJob
	_ = json.Unmarshal(fields["ids"], &ids)
	_ = json.Unmarshal(fields["jobs"], &objects)
	for _, id := range ids {
		jobs = append(jobs, int64(id))
	}
	for _, job := range objects {
		jobs = append(jobs, int64(job.ID))
	}
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	return jobs[:min(len(jobs), mostJobs)], max(0, len(jobs)-mostJobs)
}

// Registered implements master.Recorder.
func (r *record) Registered(worker string, targets []string, by string) {
	named := make([]string, min(len(targets), mostTargets))
	for i := range named {
		named[i] = jobnet.Excerpt(targets[i])
	}
	if untold, tell := r.tells(worker); tell {
		r.owes(untold, r.append(journal.Registered{Worker: jobnet.Excerpt(worker), Targets: named, More: len(targets) - len(named), By: by, Times: untold}))
	}
}

// Left implements master.Recorder.
func (r *record) Left(worker, reason, by string) {
	if untold, tell := r.tells(worker); tell {
		r.owes(untold, r.append(journal.Left{Worker: jobnet.Excerpt(worker), Reason: reason, By: by, Times: untold}))
	}
}

// owes has the next event count those that were not told, where one could not be journalled.
func (r *record) owes(untold int, err error) {
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.untold += untold + 1
	}
}

// tells tells whether a registration has an event, or the end of one; and how many had none before it.
func (r *record) tells(worker string) (untold int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.hour) >= time.Hour {
		r.hour, r.told, r.all = now, make(map[string]int), 0
	}
	if r.told[worker] >= mostOfOne || r.all >= mostOfAll {
		r.untold++
		return 0, false
	}
	r.told[worker]++
	r.all++
	untold, r.untold = r.untold, 0
	return untold, true
}

// troubles are what keeps a master from a part of its work: its journal's, and that its file of principals can't be
// used as it stands.
func troubles(r *record, server *daemon.Server) (all []api.NotReady) {
	all = r.troubles()
	if since, err := server.Refused(); err != nil {
		all = append(all, api.NotReady{What: "principals", Why: err.Error(), Since: since})
	}
	return all
}

// troubles says why changes are refused.
func (r *record) troubles() []api.NotReady {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return []api.NotReady{{What: "journal", Why: r.why.Error(), Since: r.since}}
	}
	if err := r.room(); err != nil {
		return []api.NotReady{{What: "journal", Why: err.Error()}}
	}
	return nil
}

// room says whether the journal's disk has too little room.
func (r *record) room() error {
	free, need, err := r.config.Room(r.config.Dir)
	if err == nil && free < need {
		err = fmt.Errorf("only %d MiB of the disk of %s are free, and %d MiB are needed (key journal_min_free)", free>>20, r.config.Dir, need>>20)
	}
	return err
}
