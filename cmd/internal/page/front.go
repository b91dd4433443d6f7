package page

import (
	"net/url"
	"strings"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
)

// wrong is something that is wrong, as a sentence with what it is about.
type wrong struct {
	Tone  string // warn or bad
	About string
	Link  string // of what it is about
	Text  string
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

// wrongs are all that is wrong, what keeps jobs from running first.
func (l *look) wrongs(f *fleet) (all []wrong) {
	add := func(tone, about, link, text string) {
		one := wrong{tone, screen.Clean(about), link, screen.Clean(strings.TrimSpace(text))}
		if tone == "bad" {
			all = append([]wrong{one}, all...)
		} else {
			all = append(all, one)
		}
	}
	if f.Master != nil {
		for _, t := range f.Master.Troubles {
			add("warn", "the master", "", "refuses changes: "+t.Why)
		}
		for _, down := range f.Master.Down {
			add("warn", "worker "+down.Name, "", "is down since "+l.Time(unixTime(down.Since, 1e6)).Text)
		}
		for _, u := range f.Master.Unserved {
			add("bad", "target "+u.Target, "", "was poked, and nobody serves it")
		}
	}
	for _, w := range l.workersOf(f.Census) {
		link := "/workers/" + url.PathEscape(w.Name)
		if w.Err != "" {
			add("bad", "worker "+w.Name, link, w.Err)
			continue
		}
		for _, t := range w.Troubles {
			add(toneOf(t), "worker "+w.Name, link, t.Effect+l.sinceText(t)+": "+t.Cause)
		}
		if at := w.Status.ConfigRefused; !at.IsZero() {
			add("warn", "worker "+w.Name, link, "its configuration has a mistake since "+l.Time(at).Text+", and the old one stays in force")
		}
	}
	for _, t := range f.Targets {
		link := "/targets/" + url.PathEscape(t.Target)
		for _, why := range t.Why {
			add("warn", "target "+t.Target, link, "claims nothing: "+why)
		}
		if t.Paused > 0 {
			add("warn", "target "+t.Target, link, "is "+t.State)
		}
	}
	return all
}

func toneOf(t operator.Trouble) string {
	if t.Hinders {
		return "bad"
	}
	return "warn"
}

func (l *look) sinceText(t operator.Trouble) string {
	if t.Since.IsZero() {
		return ""
	}
	return " since " + l.Time(t.Since).Text
}
