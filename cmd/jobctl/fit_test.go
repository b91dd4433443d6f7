package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/screen"
)

// A column that is named as elastic is cut so that lines fit; elsewhere than on a terminal, and
// where there is room, everything is whole.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	const long = "the row is locked by somebody who has gone to lunch"
	for name, test := range map[string]struct {
		columns int
		piped   bool
		elastic string
		want    string
	}{
		"room enough":   {columns: 100, elastic: "REASON", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"not known":     {elastic: "REASON", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"cut":           {columns: 34, elastic: "REASON", want: "JOB | REASON            | BY\n----+-------------------+---------\n5   | the row is locke… | somebody\n"},
		"no elastic":    {columns: 34, want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"the least":     {columns: 5, elastic: "REASON", want: "JOB | REASON   | BY\n----+----------+---------\n5   | the row… | somebody\n"},
		"widest first":  {columns: 30, elastic: "BY|REASON", want: "JOB | REASON        | BY\n----+---------------+---------\n5   | the row is l… | somebody\n"},
		"piped":         {columns: 34, piped: true, elastic: "REASON", want: "JOB  REASON                                               BY\n5    " + long + "  somebody\n"},
		"exactly":       {columns: 68, elastic: "REASON", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"one too small": {columns: 67, elastic: "REASON", want: "JOB | REASON                                             | BY\n----+----------------------------------------------------+---------\n5   | the row is locked by somebody who has gone to lun… | somebody\n"},
	} {
		var out strings.Builder
		p := &program{surroundings: surroundings{out: &out, terminal: !test.piped, width: func() int { return test.columns }}}
		all := table{head: []string{"JOB", "REASON", "BY"}, elastic: test.elastic}
		all.add(5, long, "somebody")
		p.print(all)
		if out.String() != test.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, &out, test.want)
		}
	}
}

// Characters count as a terminal shows them, and none is cut in two.
func TestWideCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "größe": 5, "日本": 4, "e\u0301": 1, "…": 1, "🚀": 2, "ｱ": 1, "│": 1, clean("a\u200bb"): 8} {
		if got := screen.Width(text); got != want {
			t.Errorf("%q is %d wide, want %d", text, got, want)
		}
	}
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{{"日本語です", 10, "日本語です"}, {"日本語です", 9, "日本語で…"}, {"日本語です", 8, "日本語…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}} {
		if got := screen.Cut(test.text, test.width); got != test.want || screen.Width(got) > test.width {
			t.Errorf("%q cut to %d is %q, want %q", test.text, test.width, got, test.want)
		}
	}
	d := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"targets": {"日本": {"concurrency": 1}, "e\u0301t\u0301": {"concurrency": 22}}}`)})
	got := jobctl{terminal: true}.run(t, "--port", d.port, "list-targets")
	want := "TARGET | CONCURRENCY | LENGTH | PAUSED\n-------+-------------+--------+-------\n" +
		"e\u0301t\u0301     | 22          | 0      | no\n日本   | 1           | 0      | no\n"
	if got.out != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got.out, want)
	}
}

// A person reads the time of day of what was today, and the date of what was not; programs, and
// whoever wants it, the whole.
func TestClock(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 9*3600)
	at := time.Date(2026, 11, 20, 10, 0, 5, 600_000_000, time.UTC)
	for name, test := range map[string]struct {
		now     time.Time
		place   *time.Location
		piped   bool
		precise bool
		want    string
	}{
		"today":             {now: at.Add(time.Hour), place: time.UTC, want: "10:00:05"},
		"yesterday":         {now: at.Add(24 * time.Hour), place: time.UTC, want: "2026-11-20 10:00:05"},
		"tomorrow":          {now: at.Add(-24 * time.Hour), place: time.UTC, want: "2026-11-20 10:00:05"},
		"a year ago":        {now: at.AddDate(1, 0, 0), place: time.UTC, want: "2026-11-20 10:00:05"},
		"today there":       {now: at.Add(-6 * time.Hour), place: east, want: "19:00:05"},
		"not any more here": {now: at.Add(6 * time.Hour), place: east, want: "2026-11-20 19:00:05"},
		"precise":           {now: at, place: time.UTC, precise: true, want: "2026-11-20 10:00:05.600000"},
		"piped":             {now: at, place: time.UTC, piped: true, want: "2026-11-20 10:00:05.600000"},
	} {
		p := &program{surroundings: surroundings{terminal: !test.piped, location: test.place, now: func() time.Time { return test.now }}}
		p.config.precise = test.precise
		if got := p.clock(at); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if got := p.clock(time.Time{}); got != "" {
			t.Errorf("%s: no time at all is %q", name, got)
		}
	}
	for flag, want := range map[string]string{"--precise": "2026-11-20 10:00:05.000000", "--output=table": "10:00:05"} {
		got := jobctl{terminal: true}.run(t, "journal", "log", "--kind=done", "--job=5", "--journal", oneDay(t), flag)
		if !strings.HasPrefix(got.out, want+" ") {
			t.Errorf("%s: %+v, want it to begin with %q", flag, got, want)
		}
	}
}
