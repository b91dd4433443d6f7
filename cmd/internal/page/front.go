package page

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"

	"jobd/cmd/internal/operator"
	"jobd/net/api"
)

// wrong is something that is wrong, with the address of what it is about.
type wrong struct {
	Tone string // warn or bad
	Link string // "": it is about all
	Text string
}

// frontView is /.
func frontView(l *look) (any, error) {
	f, err := l.fleet()
	if err != nil {
		return nil, err
	}
	return struct {
		*fleet
		Workers []worker
		Wrong   []wrong
	}{f, l.workersOf(f.Census), l.wrongs(f)}, nil
}

// wrongs are all that is wrong, what keeps jobs from running first; then what somebody has paused.
func (l *look) wrongs(f *fleet) (all []wrong) {
	for _, problem := range f.Health(operator.Limits{}, l.now).Problems {
		one := wrong{"warn", "", problem.Text}
		if problem.State != operator.Warning {
			one.Tone = "bad"
		}
		switch {
		case problem.Target != "" && problem.Code != "unserved":
			one.Link = "/targets/" + url.PathEscape(problem.Target)
		case problem.Worker != "" && problem.Code != "down":
			one.Link = "/workers/" + url.PathEscape(problem.Worker)
		case problem.Code == "down":
			one.Link = "/workers"
		}
		all = append(all, one)
	}
	for _, t := range f.Targets {
		link := "/targets/" + url.PathEscape(t.Target)
		if t.Paused > 0 {
			all = append(all, wrong{"warn", link, "target " + t.Target + " is " + t.State})
		}
		for _, why := range t.Why {
			all = append(all, wrong{"warn", link, "nothing is claimed for target " + t.Target + ": " + why})
		}
	}
	return all
}

// chart is what a chart shows, as its script reads it.
type chart struct {
	At     []int64 `json:"at"` // unix seconds
	Series []line  `json:"series"`
}

// line is a line of it: jobs a second.
type line struct {
	Name   string    `json:"name"`
	Colour string    `json:"colour"` // a name of the style sheet
	Values []float64 `json:"values"`
}

// rateSpans are the spans of charts, as one chooses them.
var rateSpans = []string{api.Span15m, api.Span6h, api.Span7d}

// Span is the span of the charts of this address.
func (l *look) Span() string { return cmp.Or(l.Query("span"), api.Span15m) }

// Spans are those that there are.
func (*look) Spans() []string { return rateSpans }

// rates sends the numbers of a chart: jobs started, ended and failed a second. The newest step, which is not
// over, is left out.
func (p *Page) rates(w http.ResponseWriter, l *look) error {
	query := api.RatesQuery{Span: l.Span(), Worker: l.Query("worker")}
	if target := l.Query("target"); target != "" {
		query.Targets = []string{target}
	}
	told, err := operator.Rates(l.ctx, l.Daemon(), query)
	if err != nil {
		http.Error(w, lines(err)[0], codeOf(err))
		return nil
	}
	c := chart{At: []int64{}}
	series := []struct {
		name, colour string
		counts       []int64
	}{{"started", "link", told.All.Started}, {"ended", "good", told.All.Ended}, {"failed", "bad", told.All.Failed}}
	for i := range max(0, len(told.All.Started)-1) {
		c.At = append(c.At, told.From+int64(i)*told.Step)
	}
	for _, s := range series {
		one := line{s.name, s.colour, make([]float64, len(c.At))}
		for i := range c.At {
			if i < len(s.counts) && told.Step > 0 {
				one.Values[i] = float64(s.counts[i]) / float64(told.Step)
			}
		}
		c.Series = append(c.Series, one)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(c)
	return nil
}
