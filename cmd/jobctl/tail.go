package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/reason"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// follower shows what one job writes.
type follower struct {
	*program
	job    jobnet.Whole
	target string // that its row must have; "": any
	follow bool
	lines  int // the last ones of each stream that are shown at first; negative: all

	d       *operator.Daemon
	on      *operator.Worker // the worker that answers for it; nil: none was found
	attempt int
	from    [2]int64
	goal    [2]int64 // without -f: what there was when it was first asked
	begun   bool     // the first part was shown
	waited  bool     // it was told that the job had not started
	missed  int      // how often nobody had it, though its row says that it was claimed
	ran     bool     // it was seen running
	over    bool     // all was shown that there will ever be
	shifted bool     // the offset of stderr counts the reason in front of it
	tube    *tube
}

func (p *program) tail() *cmd {
	f := &follower{program: p, lines: -1}
	c := command("tail [-f] [-n LINES] ID | T:ID", "a running job's output so far (-f: follow it); an ended job's kept output", func(ctx context.Context, args []string) error {
		job, err := oneJob("tail", "ID or TARGET:ID", args)
		if err != nil {
			return err
		}
		f.job, f.target, f.tube = job.ID, job.Target, newTube(p)
		return f.run(ctx)
	})
	c.FlagSet.BoolVar(&f.follow, "f", false, "follow new output until the job has ended")
	c.value("n", "begin with the last N lines of stdout and of stderr; default: all that is kept; 10 with -f and a running job", conf.Int(&f.lines, 0, math.MaxInt))
	return c
}

// How often a job that is followed is looked at: soon while something comes, later while not. A row
// that waits is looked at as seldom.
const (
	soonTail = 250 * time.Millisecond
	lateTail = time.Second
)

// run shows what there is, and with -f what comes. A link that is lost meanwhile is made again: what
// it missed is with the runner.
func (f *follower) run(ctx context.Context) (err error) {
	f.d = f.daemon()
	pause := soonTail
	lasting := operator.Lasting{
		Outlives: func(err error) bool { return f.follow && (f.begun || f.waited) && operator.Mended(err) },
		Tell:     func(err error) { f.note(fmt.Errorf("%w; trying again", err)) },
	}
	err = lasting.Run(ctx, func() (time.Duration, error) {
		over, some, err := f.step(ctx)
		switch {
		case err != nil:
			return 0, err
		case over:
			return -1, nil
		}
		if pause = min(2*pause, lateTail); some {
			pause = soonTail
		}
		if f.tube.behind > 0 {
			return 0, nil
		}
		return pause, nil
	})
	if exit.Interrupted(ctx) && f.follow {
		return nil // as it should be
	}
	return err
}

// step asks once, and shows what came: over tells that nothing more will, some that something did.
func (f *follower) step(ctx context.Context) (over, some bool, err error) {
	if f.on == nil {
		if err := f.find(ctx); err != nil || f.on == nil {
			return f.over, false, err
		}
	}
	var answer api.JobOutput
	query := api.OutputQuery{Job: f.job, Stdout: f.from[0], Stderr: f.from[1]}
	if err := f.on.Ask(ctx, api.Output.Name, query, &answer); err != nil {
		return false, false, err
	}
	return f.show(&answer)
}

// show prints an answer.
func (f *follower) show(a *api.JobOutput) (over, some bool, err error) {
	switch {
	case a.State == api.OutputUnknown || a.State == api.OutputClaimed:
		f.on = nil // another worker may have it by now
		return false, false, nil
	case a.Attempt != f.attempt:
		f.note(fmt.Errorf("job %d: attempt %d ended without an outcome; attempt %d begins", f.job, f.attempt, a.Attempt))
		f.attempt, f.from = a.Attempt, [2]int64{}
		f.tube.behind = 1
		return false, true, nil
	case a.Done != nil && f.ran && !f.shifted && strings.HasPrefix(a.Done.Reason, journal.UnknownOutcome):
		f.from[1] += int64(len("jobd: " + a.Done.Reason + "\n")) // what stands in front of it now
		f.shifted, f.tube.behind = true, 1
		return false, true, nil
	}
	f.ran = f.ran || a.Running
	some = len(a.Stdout.Bytes)+len(a.Stderr.Bytes) > 0
	if f.json() {
		if some || !f.begun || a.Done != nil {
			f.printJSON(struct {
				*api.JobOutput
				Worker string `json:"worker,omitempty"`
			}{a, f.on.Name})
		}
	}
	f.tube.behind = 0
	for i, part := range []*api.OutputPart{&a.Stdout, &a.Stderr} {
		if !f.json() {
			err = errors.Join(err, f.showPart(i, part))
		}
		f.from[i] = part.At + int64(len(part.Bytes))
		if len(part.Bytes) > 0 {
			f.tube.behind += max(0, part.Size-f.from[i])
		}
	}
	f.begun = true
	over = !some || f.from[0] >= f.goal[0] && f.from[1] >= f.goal[1]
	if f.follow {
		over = !a.Running && f.tube.behind == 0
	}
	if over && !f.json() {
		err = errors.Join(err, f.tube.flush())
		if f.follow && a.Done != nil {
			f.note(fmt.Errorf("job %d: %s", f.job, endOf(a.Done)))
		}
	}
	return over, some, err
}

// showPart prints a part of a stream, at first only its last lines.
func (f *follower) showPart(stream int, part *api.OutputPart) error {
	if part.Skipped > 0 {
		if err := f.tube.flush(); err != nil {
			return err
		}
		f.note(fmt.Errorf("%s bytes of %s were not kept", humanize.Comma(part.Skipped), [2]string{"stdout", "stderr"}[stream]))
	}
	bytes := part.Bytes
	if !f.begun && f.lines >= 0 {
		bytes = lastLines(bytes, f.lines)
	}
	return f.tube.write(stream, bytes)
}

// lastLines are the last n lines of a text; what stands behind the last line's end counts as one.
func lastLines(text []byte, n int) []byte {
	if n == 0 {
		return nil
	}
	for at := len(text) - 2; at >= 0; at-- {
		if text[at] == '\n' {
			if n--; n == 0 {
				return text[at+1:]
			}
		}
	}
	return text
}

// endOf says how a job ended.
func endOf(e *api.OutputEnd) string {
	text := operator.Outcome(api.Outcome{Result: e.Result, Code: e.Code, Signal: e.Signal})
	for _, more := range []string{e.Reason, e.Note} {
		if more = clean(more); more != "" && !strings.Contains(text, more) {
			text += ": " + more
		}
	}
	return "it has ended: " + text
}

// find asks all workers which of them has the job: the one where it is under way, else the one
// where it ended last. A job that nobody has may wait.
func (f *follower) find(ctx context.Context) error {
	if f.target != "" {
		if err := f.checkTarget(ctx); err != nil {
			return err
		}
	}
	fleet, err := operator.All[api.JobOutput](ctx, f.d, api.Output.Name, api.OutputQuery{Job: f.job, Most: 1})
	if err != nil {
		return err
	}
	claimed, newest := false, int64(-1)
	for _, one := range fleet {
		switch a := one.Value; {
		case one.Err != nil:
		case a.Running && a.State == api.OutputRunning:
			f.on = one.From
			f.first(&a)
			return nil
		case a.State == api.OutputClaimed:
			claimed = true
		case a.Done != nil && a.Done.Ended > newest:
			newest, f.on = a.Done.Ended, one.From
			f.first(&a)
		}
	}
	if claimed {
		f.on = nil
		return f.await("it is claimed, and has not started")
	}
	if f.on != nil {
		return nil
	}
	return f.absent(ctx, fleet)
}

// first says from where on a job is shown.
func (f *follower) first(a *api.JobOutput) {
	if f.begun {
		return // somewhere else: it goes on where it was
	}
	f.attempt, f.goal = a.Attempt, [2]int64{a.Stdout.Size, a.Stderr.Size}
	if f.waited {
		f.lines = -1
	}
	if !f.waited && f.lines < 0 && f.follow && a.Running {
		f.lines = usualLines
	}
	if f.lines >= 0 {
		f.from = [2]int64{-api.MostOutput, -api.MostOutput}
	}
}

// usualLines is what tail -f shows of what there is already.
const usualLines = 10

// await tells, once, that a job has not started; without -f that is an error.
func (f *follower) await(text string) error {
	err := fmt.Errorf("job %d: %s", f.job, text)
	if !f.follow {
		return err
	}
	if !f.waited {
		f.waited = true
		f.note(fmt.Errorf("%w; its output follows", err))
	}
	return nil
}

// mostMissed is how often a job that no worker had, and whose row says that it was claimed, is
// looked for again.
const mostMissed = 2

// absent says where a job is that no worker has. Workers and row are asked one after the other, and
// a job may be claimed in between: where the row says so, the workers are asked again.
func (f *follower) absent(ctx context.Context, fleet []operator.Answer[api.JobOutput]) error {
	row, err := f.row(ctx)
	unheard := operator.Silent(fleet)
	switch {
	case err != nil:
		return errors.Join(exit.With(exit.Unknown, fmt.Errorf("job %d: nobody knows it, and the table could not be asked: %w", f.job, err)), unheard)
	case row == nil:
		return errors.Join(exit.With(exit.NoJob, fmt.Errorf("job %d: %s", f.job, reason.NoRow)), unheard)
	case row.Status == "waiting" || row.Status == "manual":
		return f.await(fmt.Sprintf("it has not started: its row is '%s'", row.Status))
	case f.missed < mostMissed:
		f.missed++
		return nil
	}
	if row.Status == "accepted" || row.Status == "running" {
		return errors.Join(fmt.Errorf("job %d: its row is '%s', and no worker that was asked has its output; "+
			"its worker was not asked, or does not answer", f.job, clean(row.Status)), unheard)
	}
	return errors.Join(f.fromRow(ctx), unheard)
}

// row asks the table, through the first worker that can; nil: it has none.
func (f *follower) row(ctx context.Context) (*history.Row, error) {
	workers, _, err := f.d.Workers(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := operator.Rows(ctx, workers, []jobnet.Whole{f.job})
	if row, there := rows[f.job]; there {
		return &row, nil
	}
	return nil, err
}

func (f *follower) checkTarget(ctx context.Context) error {
	row, err := f.row(ctx)
	if err != nil {
		return exit.With(exit.Unknown, fmt.Errorf("job %d: the table could not be asked whether its target is '%s': %w", f.job, clean(f.target), err))
	}
	if row != nil && row.Target != f.target {
		return exit.With(exit.NoJob, fmt.Errorf("job %d is of target '%s', not '%s'", f.job, clean(row.Target), clean(f.target)))
	}
	return nil
}

// fromRow shows what the row has of a job that has ended and that no journal in reach tells of: the
// end of each stream, as the first worker that can read the table gives it.
func (f *follower) fromRow(ctx context.Context) error {
	query := api.ExplainQuery{IDs: []jobnet.Whole{f.job}, Output: true}
	fleet, err := operator.All[api.Explained](ctx, f.d, api.Explain.Name, query)
	for _, one := range fleet {
		if one.Err != nil || len(one.Value.Jobs) != 1 || one.Value.Jobs[0].Row == nil {
			continue
		}
		f.over = true
		row := one.Value.Jobs[0].Row
		answer := api.JobOutput{Job: f.job, State: api.OutputEnded, Stdout: endOfText(row.Stdout), Stderr: endOfText(row.Stderr)}
		if f.json() {
			f.printJSON(struct {
				api.JobOutput
				Row bool `json:"row"` // it is what the row has
			}{answer, true})
			return nil
		}
		f.note(fmt.Errorf("job %d: no journal that was read has its end; this is from its row", f.job))
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
	unread := fmt.Errorf("job %d: no worker that was asked has its output; the row has what is left", f.job)
	return errors.Join(unread, err)
}

// endOfText is the end of a column of output.
func endOfText(text api.JobText) api.OutputPart {
	at := max(0, text.Size-int64(len(text.Tail)))
	return api.OutputPart{At: at, Bytes: []byte(text.Tail), Size: text.Size, Skipped: at}
}

// tube passes on what a job writes. In a pipe or a file stdout goes to stdout and stderr to stderr,
// byte for byte. On a terminal both come on one screen: stderr in colour, or, where there is none,
// behind a mark; each on lines of its own.
type tube struct {
	*program
	merged bool
	last   int       // the stream that was written last
	within bool      // its line has not ended
	begun  [2][]byte // of a character that ends in the next write
	behind int64     // bytes that are there and were not asked for yet
}

// stderrMark stands before each line of stderr on a terminal without colours.
const stderrMark = "stderr| "

func newTube(p *program) *tube { return &tube{program: p, merged: p.terminal && p.errTerminal} }

// write passes on a piece of a stream: 0 is stdout, 1 stderr.
func (t *tube) write(stream int, piece []byte) error {
	if !t.merged {
		_, err := [2]io.Writer{t.out, t.err}[stream].Write(piece)
		return err
	}
	piece = append(t.begun[stream], piece...)
	whole := len(piece) - unfinished(piece)
	t.begun[stream] = bytes.Clone(piece[whole:])
	return t.show(stream, piece[:whole])
}

// unfinished is how many bytes at the end of a text begin a character that is not whole.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// show writes whole characters to the terminal.
func (t *tube) show(stream int, piece []byte) error {
	var out bytes.Buffer
	if len(piece) > 0 && t.within && stream != t.last {
		out.WriteByte('\n')
		t.within = false
	}
	for line := range bytes.Lines(piece) {
		if stream == 0 {
			out.Write(line)
		} else {
			text, ended := bytes.CutSuffix(line, []byte("\n"))
			if !t.within && !t.coloured() {
				out.WriteString(stderrMark)
			}
			out.WriteString(t.paint(string(text), bad))
			if ended {
				out.WriteByte('\n')
			}
		}
		t.last, t.within = stream, !bytes.HasSuffix(line, []byte("\n"))
	}
	_, err := t.out.Write(out.Bytes())
	return err
}

// flush ends the line on a terminal, for what jobctl itself has to say.
func (t *tube) flush() error {
	if !t.merged {
		return nil
	}
	for stream, begun := range t.begun {
		t.begun[stream] = nil
		if err := t.show(stream, begun); err != nil {
			return err
		}
	}
	if !t.within {
		return nil
	}
	t.within = false
	_, err := t.out.Write([]byte("\n"))
	return err
}
