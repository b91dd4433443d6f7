package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	jobnet "jobd/net"
)

// Each target is asked of one worker that serves it, with few requests; where one can't tell, another is
// asked in its place, and it is no error then.
func TestShare(t *testing.T) {
	t.Parallel()
	fleet := []*Worker{
		{Name: "one", Address: "a:1", Targets: []string{"mail", "video"}},
		{Name: "two", Address: "a:2", Targets: []string{"fax", "mail"}},
		{Name: "three", Address: "a:3", Targets: []string{"mail"}},
	}
	for name, test := range map[string]struct {
		workers []*Worker
		targets []string
		mute    string // who can't tell
		asked   string
		errs    string
	}{
		"all targets":                  {workers: fleet, asked: "one[mail video] two[fax]"},
		"some":                         {workers: fleet, targets: []string{"fax", "mail"}, asked: "two[fax mail]"},
		"one that can't tell":          {workers: fleet, targets: []string{"mail"}, mute: "one", asked: "one[mail] two[mail]"},
		"one that nobody can replace":  {workers: fleet, mute: "one", asked: "one[mail video] two[fax mail]", errs: "worker 'one': no"},
		"a target that nobody serves":  {workers: fleet, targets: []string{"print"}},
		"no workers":                   {},
		"the only one":                 {workers: []*Worker{{}}, targets: []string{"print"}, asked: "[print]"},
		"the only one, which can't":    {workers: []*Worker{{Name: ""}}, mute: "-", asked: "[]", errs: "no"},
		"a worker that serves nothing": {workers: []*Worker{{Name: "idle", Address: "a:1", Targets: []string{}}}},
	} {
		var asked []string
		errs := share(test.workers, test.targets, func(w *Worker, targets []string) error {
			asked = append(asked, fmt.Sprint(w.Name, targets))
			if test.mute != "" && (w.Name == test.mute || test.mute == "-") {
				return errors.New("no")
			}
			return nil
		})
		if got := strings.Join(asked, " "); got != test.asked {
			t.Errorf("%s: asked %s, want %s", name, got, test.asked)
		}
		said := ""
		if err := errors.Join(errs...); err != nil {
			said = err.Error()
		}
		if said != test.errs {
			t.Errorf("%s: errors %q, want %q", name, said, test.errs)
		}
	}
}

// Whether a request was carried out is open where no answer came of it, to us or to the master; a
// refusal, and what never left, was not.
func TestWhatIsLeftOpen(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&unanswered{"retry", errors.New("link closed")}:                      true,
		&unanswered{"status", errors.New("link closed")}:                     false,
		&unanswered{"retry", fmt.Errorf("%w: gone", jobnet.ErrUnsent)}:       false,
		&jobnet.RemoteError{Text: "no answer within 30s"}:                    true,
		&jobnet.RemoteError{Text: "connection lost"}:                         true,
		&jobnet.RemoteError{Text: "the database is away"}:                    false,
		&jobnet.RemoteError{Text: "unknown request type: 'retry'", Code: ""}: false,
	} {
		if got := open(err, "retry"); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
