package page

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/cmd/internal/web"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// chronicle is a journal, and how far back it goes.
type chronicle struct {
	Worker string
	Anchor journal.Anchor
	Kept   *journal.RemovedError // nil: all of it is there
	Status *api.JournalStatus    // nil: not told
}

// recorded is an event of a journal.
type recorded struct {
	Seq    uint64
	At     time.Time
	Worker string
	Kind   string
	Tone   string
	Job    int64
	Text   string
}

// journalPage is /journal.
type journalPage struct {
	Kind, Job, Target, By, Since, Until string

	Kinds    []string
	Journals []chronicle
	Events   []recorded
	Back     time.Time // how far back was looked; zero: as far as there is something, or enough was found
	Earlier  string    // the address of what was before that
}

// mostEvents is how many events a page shows, and mostSearched how many of each journal are looked at for it.
const (
	mostEvents   = 100
	mostSearched = 1_000
)

// journalView is /journal.
func journalView(l *look) (any, error) {
	p := &journalPage{
		Kind: l.value("kind"), Job: l.value("job"), Target: l.value("target"), By: l.value("by"), Since: l.value("since"), Until: l.value("until"),
	}
	for _, kind := range journal.Kinds() {
		p.Kinds = append(p.Kinds, string(kind))
	}
	slices.Sort(p.Kinds)
	query, err := p.query(l)
	if err != nil {
		return nil, err
	}
	j, err := operator.FindJournals(l.ctx, l.Daemon(), l.note)
	if err != nil {
		return nil, err
	}
	for _, s := range j.Sources {
		l.note(p.tellOf(l.ctx, s))
	}
	if p.Kind != "" || p.Target != "" || p.By != "" { // else the newest are those that are wanted
		j.Look = mostSearched
	}
	for e, err := range j.Events(l.ctx, query) {
		if err != nil {
			l.note(err)
			break
		}
		p.Events = append(p.Events, recorded{
			Seq: e.Item.Seq, At: e.Item.Time, Worker: e.Source.Worker(), Kind: string(e.Item.Kind()), Tone: toneOfEvent(e.Item.Payload),
			Job: e.Item.Job, Text: operator.Describe(e.Item.Payload),
		})
	}
	l.noteAll(j.Failed)
	slices.Reverse(p.Events)
	if len(p.Events) < mostEvents && !j.LookedBack.IsZero() {
		p.Back, p.Earlier = j.LookedBack, l.With("until", j.LookedBack.UTC().Format(time.RFC3339Nano))
	}
	return p, nil
}

// tellOf notes how far a journal goes.
func (p *journalPage) tellOf(ctx context.Context, s operator.Source) error {
	anchor, err := s.Anchor(ctx)
	if err != nil {
		return operator.Named(s.Worker(), err)
	}
	kept, err := s.Kept(ctx)
	p.Journals = append(p.Journals, chronicle{Worker: s.Worker(), Anchor: anchor, Kept: kept})
	return err
}

// query is what the address looks for.
func (p *journalPage) query(l *look) (q history.Query, err error) {
	q = history.Query{Target: p.Target, AskedBy: p.By, Last: mostEvents}
	if p.Kind != "" {
		if !slices.Contains(p.Kinds, p.Kind) {
			return q, badQuery("kind %s is not allowed; choose one of the list", screen.Clean(p.Kind))
		}
		q.Kinds = []journal.Kind{journal.Kind(p.Kind)}
	}
	if p.Job != "" {
		job, err := strconv.ParseInt(p.Job, 10, 64)
		if err != nil || job == 0 {
			return q, badQuery("job %s is not allowed; allowed: a whole number, and not 0", screen.Clean(p.Job))
		}
		q.Job = jobnet.Whole(job)
	}
	if q.Since, err = l.moment("since", p.Since); err == nil {
		q.Until, err = l.moment("until", p.Until)
	}
	return q, err
}

// verify verifies the journals while whoever asked for it looks on: what it has come to is written as it goes,
// at the end of the page.
func (p *Page) verify(w http.ResponseWriter, l *look) error {
	j, err := operator.FindJournals(l.ctx, l.Daemon(), l.note)
	if err != nil {
		return err
	}
	out, err := web.OpenStream(w, l.Request)
	if err != nil {
		return refuse(http.StatusTooManyRequests, "%v", err)
	}
	defer out.Close()
	l.title = "Verification"
	frame := p.framed(l, &aScreen{title: l.title}, "")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := templates().ExecuteTemplate(out, "begin", frame); err != nil {
		return nil // whoever asked is gone
	}
	defer func() { _ = templates().ExecuteTemplate(out, "end", frame) }()
	say := func(tone, format string, args ...any) {
		fmt.Fprintf(out, "<p class=\"%s step\">%s</p>\n", tone, template.HTMLEscapeString(screen.Clean(fmt.Sprintf(format, args...))))
	}
	say("", "Each event is compared with the chain of hashes. Leaving this page ends it.")
	for _, s := range j.Sources {
		name := "The journal"
		if s.Worker() != "" {
			name = "The journal of worker " + s.Worker()
		}
		last := time.Now()
		verdict, err := s.Audit(out, nil, func(seq uint64) {
			if time.Since(last) > time.Second {
				last = time.Now()
				say("quiet", "%s: event %s", name, comma(seq))
			}
		})
		switch {
		case err != nil:
			say("bad", "%s could not be verified: %v", name, err)
		default:
			tone, text := verdictText(verdict)
			say(tone, "%s %s", name, text)
		}
	}
	for _, err := range j.Failed {
		say("bad", "%v", err)
	}
	say("", "That was all.")
	return nil
}

// verdictText is what a verification has found, and how good that is.
func verdictText(v history.Verdict) (tone, text string) {
	if !v.Sound {
		return "bad", "is not sound: " + v.Error
	}
	text = fmt.Sprintf("is sound: events %s to %s are as they were written", comma(v.First), comma(v.Events))
	if v.Time.IsZero() {
		return "good", text + "."
	}
	return "good", text + ", the newest of " + v.Time.Local().Format(time.DateTime) + "."
}
