package exec

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"jobd/exec/board"
	"jobd/journal"
)

// One goroutine journals what happens to the jobs that have a slot. Whatever has come together
// since its last turn goes into one append: ends, the announcements of the jobs that follow in the
// slots, processes that are known by now, signals. So each turn costs one fsync, one transaction of
// the mirror and one message to the runner, however many jobs take part in it; under load turns get
// larger, not more.

// turnLoop takes turns until ctx ends, with a last one then, or the journal fails.
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

// A turn that follows a busy one waits for more to come together, for collectTime at most: until
// half of the jobs that have a slot have ended, or collectEnough of them. The others run meanwhile,
// and what is spent on a turn is shared by more. After a turn that was about one job nothing waits.
const (
	collectTime   = 3 * time.Millisecond
	collectEnough = 16
)

// collect waits until enough has come together for a turn.
func (w *Worker) collect() {
	if time.Since(w.busy) > collectTime {
		return
	}
	timer := time.NewTimer(collectTime)
	defer timer.Stop()
	for !w.enough() {
		select {
		case <-w.turns:
		case <-timer.C:
			return
		}
	}
}

// enough tells whether a turn waits for nothing more.
func (w *Worker) enough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Crowded(collectEnough)
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
	if turn.Ends > 1 {
		w.busy = time.Now()
	}
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

// What the log tells of jobs and of what people change, it tells where that is journalled: whatever
// asks for it, and in whichever way it came, each event is told once, and nothing is told that is
// not in the journal. Where a level is not logged its events cost one question a batch.

// tell writes events to the log: a job that failed, and a row that can't be run as it is, as
// warnings, what somebody has changed as information, starts and ends for who looks for a mistake.
func (w *Worker) tell(events []journal.Event) {
	ctx := context.Background()
	info, debug := w.Logger.Enabled(ctx, slog.LevelInfo), w.Logger.Enabled(ctx, slog.LevelDebug)
	for _, e := range events {
		switch p := e.Payload.(type) {
		case journal.Done:
			if p.Result != "ok" {
				w.log(slog.LevelWarn, "job failed", w.toldEnd(e, p))
			} else if debug {
				w.log(slog.LevelDebug, "job ended", w.toldEnd(e, p))
			}
		case journal.Started:
			if debug {
				w.log(slog.LevelDebug, "job started", append(w.about(e.Job), slog.Int("pid", p.Pid)))
			}
		case journal.Ignored:
			if p.Told {
				args := []slog.Attr{slog.Int64("job", e.Job), slog.String("reason", p.Reason)}
				w.log(slog.LevelWarn, "job is ignored: its row can't be run as it is", args)
			} else if info {
				w.tellChange(e)
			}
		default:
			if info {
				w.tellChange(e)
			}
		}
	}
}

func (w *Worker) log(level slog.Level, text string, attrs []slog.Attr) {
	w.Logger.LogAttrs(context.Background(), level, text, attrs...)
}

// about names a job that is under way.
func (w *Worker) about(id int64) []slog.Attr {
	w.mu.Lock()
	j := w.board.Job(id)
	w.mu.Unlock()
	attrs := []slog.Attr{slog.Int64("job", id)}
	if j != nil {
		attrs = append(attrs, slog.String("target", j.Target()), slog.Int("attempt", j.Attempt()))
	}
	return attrs
}

// toldEnd is what is told of a job's end. Of stderr only a line, and only of one that failed: what a
// job writes is the application's.
func (w *Worker) toldEnd(e journal.Event, done journal.Done) []slog.Attr {
	attrs := append(w.about(e.Job), slog.String("result", done.Result))
	if done.Code != nil {
		attrs = append(attrs, slog.Int("code", *done.Code))
	}
	if done.Signal != "" {
		attrs = append(attrs, slog.String("signal", done.Signal))
	}
	if done.Elapsed > 0 {
		attrs = append(attrs, slog.Duration("elapsed", time.Duration(done.Elapsed)*time.Microsecond))
	}
	if done.Timeout > 0 {
		attrs = append(attrs, slog.Duration("timeout", time.Duration(done.Timeout)*time.Second))
	}
	if again := done.Again; again != nil {
		attrs = append(attrs, slog.String("again", again.Why), whenDue(again.RunAt))
	}
	if done.Reason != "" {
		attrs = append(attrs, slog.String("reason", done.Reason))
	}
	if line := lastLine(done.Stderr); line != "" && done.Result != "ok" && done.Reason == "" {
		attrs = append(attrs, slog.String("stderr", line))
	}
	return attrs
}

// tellChange tells what somebody has changed, and who it was.
func (w *Worker) tellChange(e journal.Event) {
	say := func(text, by string, args ...slog.Attr) {
		w.log(slog.LevelInfo, text, append(args, slog.String("by", by)))
	}
	switch p := e.Payload.(type) {
	case journal.Paused:
		say("targets were paused", p.By, named("targets", p.Targets))
	case journal.Continued:
		say("targets go on", p.By, named("targets", p.Targets))
	case journal.TargetAdded:
		say("target was added", p.By, slog.String("target", p.Target), slog.Int("concurrency", p.Concurrency))
	case journal.TargetRemoved:
		say("target was removed", p.By, slog.String("target", p.Target))
	case journal.ConcurrencySet:
		say("concurrency was set", p.By, slog.String("target", p.Target), slog.Int("concurrency", p.Concurrency))
	case journal.Signal:
		say("signal is sent", p.By, append(w.about(e.Job), slog.Int("signal", p.Signo))...)
	case journal.Cancelled:
		if p.Runs {
			grace := slog.Duration("grace", time.Duration(p.Grace)*time.Microsecond)
			say("job is cancelled while it runs", p.By, append(w.about(e.Job), grace)...)
		} else {
			say("job is cancelled before its start", p.By, w.about(e.Job)...)
		}
	case journal.Ignored:
		if p.By != "" {
			say("job is cancelled before anybody claimed it", p.By, slog.Int64("job", e.Job))
		}
	case journal.Planned:
		args := []slog.Attr{slog.Int64("job", e.Job), slog.String("target", p.Target), whenDue(p.To.RunAt), slog.String("reason", p.Reason)}
		if p.By != "" {
			say("job is to be run now", p.By, args...)
		} else {
			w.log(slog.LevelInfo, "job is planned anew, and not run", args)
		}
	case journal.Retried:
		say("job is set back, to be run once more", p.By,
			slog.Int64("job", e.Job), slog.String("target", p.Target), slog.String("to", p.To))
	case journal.Requested:
		request := p.Request
		if request == "" {
			request = "run-manual"
		}
		args := []slog.Attr{slog.String("request", request)}
		if n := len(p.Jobs) + p.More; n > 0 {
			args = append(args, slog.Int("jobs", n))
		}
		say("request was taken", p.By, args...)
	case journal.Refused:
		say("request was refused", p.By, slog.String("request", p.Request), slog.String("about", p.About), slog.String("reason", p.Reason))
	case journal.Reloaded:
		say("configuration is taken over", p.By, slog.String("file", p.File), slog.Any("changed", p.Changed))
	}
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
