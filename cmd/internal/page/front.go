package page

import (
	"net/url"

	"jobd/cmd/internal/operator"
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
