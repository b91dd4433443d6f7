package page

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/journal"
)

// Views are made beside the requests that net/http guards, too: one that panics is told of, and ends nothing else.
func TestAViewThatPanics(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	p := &Page{Config: Config{Log: slog.New(slog.NewTextHandler(&told, nil))}}
	odd := &aScreen{template: "odd.html", view: func(*look) (any, error) { panic("what a peer has told") }}
	if _, err := p.shown(&look{page: p}, odd); err != errBroken {
		t.Errorf("%v", err)
	}
	if said := told.String(); !strings.Contains(said, "what a peer has told") || !strings.Contains(said, "page_test.go") {
		t.Errorf("the log does not say where: %s", said)
	}
}

// A job's attempts stand beside each other as long as they took; one that fills the picture needs none.
func TestPictureOfAttempts(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	runs := func(payloads ...journal.Payload) (all []*operator.Run) {
		for i, payload := range payloads {
			if _, claims := payload.(journal.Accepted); claims {
				all = append(all, &operator.Run{})
			}
			r := all[len(all)-1]
			var e operator.StoryEvent
			e.Item.Time, e.Item.Payload = begin.Add(time.Duration(i)*time.Second), payload
			r.Events = append(r.Events, e)
			if done, ends := payload.(journal.Done); ends {
				r.Done = &done
			}
		}
		return all
	}
	claimed, starts, ok, fail := journal.Accepted{}, journal.Running{}, journal.Done{Result: "ok"}, journal.Done{Result: "fail"}
	for _, c := range []struct {
		name string
		runs []*operator.Run
		now  int // seconds after the begin
		want string
	}{
		{"nothing known", nil, 9, ""},
		{"one that waited, then ran", runs(claimed, starts, ok), 9, "waits 0-500, ok 500-1000"},
		{"one that runs", runs(claimed, starts), 4, "waits 0-250, runs 250-1000"},
		{"it waits only", runs(claimed), 4, ""},
		{
			"failed, and again", runs(claimed, starts, fail, claimed, starts, ok), 9,
			"waits 0-200, failed 200-400, waits 600-800, ok 800-1000",
		},
		{"a crash between", runs(claimed, starts, claimed, starts, ok), 9, "waits 0-250, waits 500-750, ok 750-1000"},
	} {
		var got []string
		for _, bar := range pictureOf(c.runs, begin.Add(time.Duration(c.now)*time.Second)).Bars {
			var x, w float64
			fmt.Sscan(bar.X, &x)
			fmt.Sscan(bar.W, &w)
			got = append(got, fmt.Sprintf("%s %.0f-%.0f", bar.Class, x, x+w))
		}
		if said := strings.Join(got, ", "); said != c.want {
			t.Errorf("%s: %s, want %s", c.name, said, c.want)
		}
	}
}
