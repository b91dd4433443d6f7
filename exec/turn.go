package exec

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"jobd/exec/board"
	"jobd/journal"
)

// One goroutine journals what happens to the jobs that have a slot. All that has come together since
// its last turn goes into one append: ends, the announcements of the jobs that follow in the slots,
// processes that are known by now, signals. So each turn costs one fsync, one transaction of the
// mirror and one message to the runner, however many jobs take part in it; under load turns get
// larger, not more.

// turnLoop takes turns until ctx ends or the journal fails. When ctx ends, it takes one last turn.
func (w *Worker) turnLoop(ctx context.Context) {
	defer close(w.turned)
	for {
		select {
		case <-ctx.Done():
			w.turn()
			return
		case <-w.whole.Done():
			return
		case <-w.turns:
			w.collect()
			w.turn()
		}
	}
}

// Jobs that were started together often end together. So a turn waits for the others where one of them
// has ended, as long as those are half of what runs, for collectTime at most: what is spent on a turn is
// shared by more, and so is the next one, since those that follow are started together again. Where jobs
// take times of their own, nothing waits.
const (
	collectTime   = 3 * time.Millisecond
	collectEnough = 16
)

// collect waits until enough has come together for a turn.
func (w *Worker) collect() {
	if !w.gathers() {
		return
	}
	timer := time.NewTimer(collectTime)
	defer timer.Stop()
	for w.gathers() {
		select {
		case <-w.turns:
		case <-timer.C:
			return
		}
	}
}

// gathers tells whether a turn waits for more.
func (w *Worker) gathers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Gathers(collectEnough)
}

// nudgeTurn makes the loop take a turn.
func (w *Worker) nudgeTurn() {
	select {
	case w.turns <- struct{}{}:
	default:
	}
}

// turn takes all jobs that something has happened to one step further: what has happened is
// journalled, then memory changes, then effects follow.
func (w *Worker) turn() {
	var turn board.Turn
	instance := w.instance()
	w.change(func(b *board.Board) (e board.Effects) {
		now := time.Now()
		b.SetAhead(w.clock.ahead(now))
		turn, e = b.Turn(now, instance)
		return e
	})
	if len(turn.Steps) == 0 {
		return
	}
	w.journalSteps(turn.Steps)
	w.observe(turn.Steps)
	w.change(func(b *board.Board) board.Effects { return b.Journalled(turn) })
}

// journalSteps appends the steps of a turn. Where one of them contradicts the journal, because its
// row was changed by somebody else, the others are not held up.
func (w *Worker) journalSteps(steps []*board.Step) {
	var drafts []journal.Draft
	for _, s := range steps {
		drafts = append(drafts, s.Drafts...)
	}
	events, err := w.record(drafts...)
	if illegal(err) != nil && len(steps) > 1 {
		for _, s := range steps {
			s.Events, s.Err = w.record(s.Drafts...)
		}
		return
	}
	for _, s := range steps {
		if s.Err = err; err == nil {
			s.Events, events = events[:len(s.Drafts)], events[len(s.Drafts):]
		}
	}
}

// The log tells of jobs, and of what people change, at the moment when that is journalled: so it
// tells each event once, whoever asked for it and in whichever way, and tells nothing that is not in
// the journal.

// tell writes events to the log. Jobs that failed, and rows that can't be run as they are, are warnings;
// changes that somebody made are information; starts, and ends that went well, are for debugging.
func (w *Worker) tell(events []journal.Event) {
	ctx := context.Background()
	for _, e := range events {
		level := slog.LevelInfo
		switch p := e.Payload.(type) {
		case journal.Done:
			if level = slog.LevelDebug; p.Result != "ok" {
				level = slog.LevelWarn
			}
		case journal.Started:
			level = slog.LevelDebug
		case journal.Ignored:
			if p.Told {
				level = slog.LevelWarn
			}
		}
		if !w.Logger.Enabled(ctx, level) {
			continue
		}
		if text, args := w.told(e); text != "" {
			w.Logger.Log(ctx, level, text, args...)
		}
	}
}

// told says in words what an event is about, and who has changed it; "" of one that is not told.
func (w *Worker) told(e journal.Event) (text string, args []any) {
	switch p := e.Payload.(type) {
	case journal.Done:
		return w.toldEnd(e, p)
	case journal.Started:
		return "job started", append(w.about(e.Job), "pid", p.Pid)
	case journal.Paused:
		return "targets were paused", []any{named("targets", p.Targets), "by", p.By}
	case journal.Continued:
		return "targets go on", []any{named("targets", p.Targets), "by", p.By}
	case journal.TargetAdded:
		return "target was added", []any{"target", p.Target, "concurrency", p.Concurrency, "by", p.By}
	case journal.TargetRemoved:
		return "target was removed", []any{"target", p.Target, "by", p.By}
	case journal.ConcurrencySet:
		return "concurrency was set", []any{"target", p.Target, "concurrency", p.Concurrency, "by", p.By}
	case journal.Signal:
		return "signal is sent", append(w.about(e.Job), "signal", p.Signo, "by", p.By)
	case journal.Cancelled:
		if p.Runs {
			grace := time.Duration(p.Grace) * time.Microsecond
			return "job is cancelled while it runs", append(w.about(e.Job), "grace", grace, "by", p.By)
		}
		return "job is cancelled before its start", append(w.about(e.Job), "by", p.By)
	case journal.Ignored:
		switch {
		case p.Told:
			return "job is ignored: its row can't be run as it is", []any{"job", e.Job, "reason", p.Reason}
		case p.By != "":
			return "job is cancelled before anybody claimed it", []any{"job", e.Job, "by", p.By}
		}
	case journal.Planned:
		args = []any{"job", e.Job, "target", p.Target, whenDue(p.To.RunAt), "reason", p.Reason}
		if p.By != "" {
			return "job was made due now", append(args, "by", p.By)
		}
		return "job is planned anew, and not run", args
	case journal.Retried:
		return "job is set back and will run once more", []any{"job", e.Job, "target", p.Target, "to", p.To, "by", p.By}
	case journal.Requested:
		args = []any{"request", cmp.Or(p.Request, "run-manual")}
		if n := len(p.Jobs) + p.More; n > 0 {
			args = append(args, "jobs", n)
		}
		return "request was taken", append(args, "by", p.By)
	case journal.Refused:
		return "request was refused", []any{"request", p.Request, "about", p.About, "reason", p.Reason, "by", p.By}
	case journal.Reloaded:
		return "configuration is taken over", []any{"file", p.File, "changed", p.Changed, "by", p.By}
	}
	return "", nil
}

// about names a job that is under way.
func (w *Worker) about(id int64) []any {
	w.mu.Lock()
	j := w.board.Job(id)
	w.mu.Unlock()
	if j == nil {
		return []any{"job", id}
	}
	return []any{"job", id, "target", j.Target(), "attempt", j.Attempt()}
}

// toldEnd is what is told of a job's end. Of stderr only a line, and only of one that failed: what a
// job writes is the application's.
func (w *Worker) toldEnd(e journal.Event, done journal.Done) (text string, args []any) {
	args = append(w.about(e.Job), "result", done.Result)
	add := func(is bool, key string, value any) {
		if is {
			args = append(args, key, value)
		}
	}
	if done.Code != nil {
		add(true, "code", *done.Code)
	}
	add(done.Signal != "", "signal", done.Signal)
	add(done.Elapsed > 0, "elapsed", time.Duration(done.Elapsed)*time.Microsecond)
	add(done.Timeout > 0, "timeout", time.Duration(done.Timeout)*time.Second)
	if again := done.Again; again != nil {
		args = append(args, "again", again.Why, whenDue(again.RunAt))
	}
	add(done.Reason != "", "reason", done.Reason)
	if done.Result == "ok" {
		return "job ended", args
	}
	if done.Reason == "" {
		line := lastLine(done.Stderr)
		add(line != "", "stderr", line)
	}
	return "job failed", args
}

// whenDue is when a row is due.
func whenDue(at int64) slog.Attr { return slog.Time("due", time.Unix(at, 0).UTC()) }

// mostListed is how many names of a list the log shows.
const mostListed = 20

// named is a list of names as the log shows it.
func named(key string, names []string) slog.Attr {
	if more := len(names) - mostListed; more > 0 {
		return slog.Group(key, slog.Any("first", names[:mostListed]), slog.Int("more", more))
	}
	return slog.Any(key, names)
}

// The log shows so many bytes of a line, and looks at so many of its first ones.
const (
	mostOfLine = 200
	mostRead   = 64 * mostOfLine
)

// lastLine is the last line with something in it, for a log: without control characters, and cut.
// Where there is none, it is "".
func lastLine(output journal.Output) string {
	text := output.LastLine()
	line := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(text[:min(len(text), mostRead)]), "\ufffd"))
	if line = strings.TrimSpace(line); len(line) > mostOfLine || len(text) > mostRead {
		line = strings.ToValidUTF8(line[:min(len(line), mostOfLine-len("…"))], "") + "…"
	}
	return line
}
