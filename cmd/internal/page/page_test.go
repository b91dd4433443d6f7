package page

import (
	"log/slog"
	"strings"
	"testing"
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
