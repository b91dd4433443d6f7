package main

import (
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/screen"
)

// What takes longer than a second is told to a terminal, in one line of it.
func TestProgress(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		columns  int
		terminal bool
		environ  []string
		after    time.Duration
		n        uint64
		want     string
	}{
		"a terminal":         {columns: 80, terminal: true, after: time.Second, n: 500, want: "500 events verified"},
		"a narrow terminal":  {columns: 15, terminal: true, after: time.Hour, n: 500, want: "500 events ve…"},
		"not known how wide": {terminal: true, after: time.Hour, n: 1234, want: "1,234 events verified"},
		"a short run":        {columns: 80, terminal: true, after: 899 * time.Millisecond, n: 500},
		"a dumb terminal":    {columns: 80, terminal: true, environ: []string{"TERM=dumb"}, after: time.Hour, n: 500},
		"a pipe":             {columns: 80, after: time.Hour, n: 500},
	} {
		var out strings.Builder
		now := begin
		p := &program{surroundings: surroundings{
			environ: test.environ, err: &out, errTerminal: test.terminal, errWidth: func() int { return test.columns }, now: func() time.Time { return now },
		}}
		g := p.progress("events verified")
		now = now.Add(test.after)
		g.at(test.n)
		now = now.Add(progressInterval / 2)
		g.at(test.n + 1) // too soon to be told
		g.end()
		want := ""
		if test.want != "" {
			want = "\r" + test.want + "\x1b[K\r\x1b[K"
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", name, out.String(), want)
		}
		if screen.Width(test.want) >= test.columns && test.columns > 0 {
			t.Errorf("%s: %d columns of %d", name, screen.Width(test.want), test.columns)
		}
	}
}

// Long runs over journals tell it.
func TestProgressOfJournals(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	for args, want := range map[string]string{
		"journal verify": " events verified", "journal export": " events exported", "journal state": " jobs",
	} {
		var out, errs strings.Builder
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		code := shell(t.Context(), append(strings.Fields(args), "--journal", dir), surroundings{
			out: &out, err: &errs, errTerminal: true, errWidth: func() int { return 100 }, location: time.UTC,
			now: func() time.Time { now = now.Add(2 * time.Second); return now }, // each look at the clock takes long
		})
		if code != 0 || !strings.Contains(errs.String(), want) || !strings.HasSuffix(errs.String(), "\r\x1b[K") {
			t.Errorf("%s: exit code %d, %q, want %q", args, code, errs.String(), want)
		}
	}
}
