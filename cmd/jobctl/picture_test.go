package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

// scripted is a source that gives events that a test made up.
type scripted struct {
	source   // nothing else is asked of it
	name     string
	happened []journal.Event
	err      error // after the events
}

func (s *scripted) worker() string { return s.name }

func (s *scripted) events(context.Context, history.Query) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for _, e := range s.happened {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(journal.Event{}, s.err)
		}
	}
}

// A busy day, 100,000 jobs in 30 slots of 3 workers, is drawn in less than 2 MiB, and is well-formed.
func TestPictureOfABusyDayStaysSmall(t *testing.T) {
	t.Parallel()
	p := newPicture(begin, begin.Add(24*time.Hour), time.UTC)
	code := 1
	for n, name := range []string{"node-1", "node-2", "node-3"} {
		s := &scripted{name: name}
		for job := int64(0); job < 33_334; job++ {
			at := begin.Add(time.Duration(job/10) * 25 * time.Second)
			add := func(payload journal.Payload, after time.Duration) {
				p.add(from[journal.Event]{s, journal.Event{Time: at.Add(after), Job: job + 1, Payload: payload}})
			}
			add(journal.Accepted{Target: string(rune('a' + (job+int64(n))%7))}, 0)
			add(journal.Running{Attempt: 1}, time.Second)
			if job%10 == 9 { // ten at once: the end of each is told when all have begun
				for ended := job - 8; ended <= job+1; ended++ {
					done := journal.Done{Result: "ok"}
					if ended%13 == 0 {
						done = journal.Done{Result: "fail", Code: &code}
					}
					p.add(from[journal.Event]{s, journal.Event{Time: at.Add(time.Duration(2+ended%20) * time.Second), Job: ended, Payload: done}})
				}
			}
		}
	}
	p.end()
	var page bytes.Buffer
	p.svg(&page)
	if page.Len() > 2<<20 || p.bars < 100_000 {
		t.Errorf("%d bars take %d bytes", p.bars, page.Len())
	}
	if lanes := p.lanes(); lanes < 30 || lanes > mostLanes {
		t.Errorf("%d lanes", lanes)
	}
	wellFormed(t, page.String())
}

// More slots than a picture has lanes share the last one, and the longest bars stay small too.
func TestPictureOfManySlots(t *testing.T) {
	t.Parallel()
	p := newPicture(begin, begin.Add(time.Hour), time.UTC)
	s := &scripted{name: `<node & "co">`}
	for round := range 200 {
		for job := int64(1); job <= 300; job++ {
			at := begin.Add(time.Duration(round) * 18 * time.Second)
			p.add(from[journal.Event]{s, journal.Event{Time: at, Job: job, Payload: journal.Accepted{Target: "<t>"}}})
			p.add(from[journal.Event]{s, journal.Event{Time: at, Job: job, Payload: journal.Running{Attempt: 1}}})
		}
		for job := int64(1); job <= 300; job++ {
			at := begin.Add(time.Duration(round)*18*time.Second + 17*time.Second)
			p.add(from[journal.Event]{s, journal.Event{Time: at, Job: job, Payload: journal.Done{Result: "ok"}}})
		}
	}
	p.end()
	var page bytes.Buffer
	p.html(&page)
	if page.Len() > 2<<20 || p.lanes() != mostLanes {
		t.Errorf("%d bytes, %d lanes", page.Len(), p.lanes())
	}
	if strings.Contains(page.String(), "<node") || strings.Contains(page.String(), "<t>") {
		t.Error("names are not escaped")
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func eventAt(second int) journal.Event {
	return journal.Event{Seq: uint64(second), Time: begin.Add(time.Duration(second) * time.Second), Payload: journal.Closed{}}
}

// Events of several workers come in the order of time; one that fails does not take the others with it.
func TestMergedByTime(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	j := &journals{sources: []source{
		&scripted{name: "a", happened: []journal.Event{eventAt(1), eventAt(4), eventAt(9)}},
		&scripted{name: "b", happened: []journal.Event{eventAt(2)}, err: broken},
		&scripted{name: "c", happened: []journal.Event{eventAt(3), eventAt(5)}},
	}}
	var order []string
	for e, err := range j.events(t.Context(), history.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, e.source.worker()+e.item.Time.Format("5"))
	}
	if got := strings.Join(order, " "); got != "a1 b2 c3 a4 c5 a9" {
		t.Errorf("order %s", got)
	}
	if len(j.failed) != 1 || !errors.Is(j.failed[0], broken) || !strings.Contains(j.failed[0].Error(), "worker 'b'") {
		t.Errorf("failed: %v", j.failed)
	}
	order = nil
	for e, err := range j.events(t.Context(), history.Query{Last: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, e.source.worker()+e.item.Time.Format("5"))
	}
	if got := strings.Join(order, " "); got != "c5 a9" {
		t.Errorf("the newest two: %s", got)
	}
}

// Percentiles are as near as they promise, for a million durations as for one.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	var d durations
	if d.quantile(.5) != 0 {
		t.Errorf("of none: %v", d.quantile(.5))
	}
	for n := 1; n <= 100_000; n++ {
		d.add(time.Duration(n) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{.5: 50 * time.Second, .9: 90 * time.Second, .99: 99 * time.Second, 1: 100 * time.Second} {
		if got := d.quantile(q); got < want || float64(got) > growth*float64(want) {
			t.Errorf("quantile %v is %v, want at least %v and less than 2%% more", q, got, want)
		}
	}
	if len(d.buckets) > 1000 {
		t.Errorf("%d buckets", len(d.buckets))
	}
}
