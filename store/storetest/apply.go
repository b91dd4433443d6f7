package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

func applyTests() []test {
	return []test{
		{"nothing", func(s *suite) { s.apply(nil, []store.Outcome{}) }},
		{"pitfall 13: running, twice", applyRunning},
		{"every way to be done, twice", applyDone},
		{"released to where it came from", applyReleased},
		{"guarded by the token and the status", applyGuarded},
		{"going over the last steps again", applyAgain},
		{"several hundred at once", applyMany},
		{"several that are alike, and some that only look so", applyAlike},
	}
}

// code is an exit code.
func code(n int) *int { return &n }

func applyRunning(s *suite) {
	id := s.insert("a", journal.RowAccepted, token)
	change := store.Change{Job: id, Token: token, Status: journal.RowRunning, Start: time.Unix(started, 0)}
	for range 2 {
		s.apply([]store.Change{change}, []store.Outcome{{}})
		want := row{Target: "a", Status: journal.RowRunning, Started: started, Sig: token, SigSet: true, Code: -1, ResultNull: true}
		if diff := cmp.Diff(want, s.read(id)); diff != "" {
			s.Errorf("row (-want +got):\n%s", diff)
		}
	}
}

func applyDone(s *suite) {
	cases := []struct {
		name string
		how  *journal.Done
		want row
	}{
		{"ok", ended("ok", code(0), "", "out\n", "err\n"), row{Result: "ok", Code: 0, Stdout: "out\n", Stderr: "err\n"}},
		{"fail", ended("fail", code(7), "", "", "bad"), row{Result: "fail", Code: 7, Stderr: "bad"}},
		{"the highest code", ended("fail", code(255), "", "", ""), row{Result: "fail", Code: 255}},
		{"pitfall 11: a signal is no return code", ended("fail", nil, "SIGTERM", "", ""), row{Result: "fail", Code: -1, Sig: "SIGTERM"}},
		{"pitfall 12: the longest name of a signal", ended("fail", nil, "SIGVTALRM", "", ""), row{Result: "fail", Code: -1, Sig: "SIGVTALRM"}},
		{"unknown outcome", ended("fail", nil, "", "", "the worker crashed"), row{Result: "fail", Code: -1, Stderr: "the worker crashed"}},
	}
	for _, c := range cases {
		s.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, Fixture: s.Fixture}
			id := s.insert("a", journal.RowRunning, token)
			c.want.Target, c.want.Status, c.want.SigSet = "a", journal.RowDone, c.want.Sig != ""
			c.want.Started, c.want.Finished = started, finished
			for range 2 {
				s.apply([]store.Change{done(id, c.how)}, []store.Outcome{{}})
				if diff := cmp.Diff(c.want, s.read(id)); diff != "" {
					s.Errorf("row (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func applyReleased(s *suite) {
	for _, status := range []string{journal.RowWaiting, journal.RowManual} {
		id := s.insert("a", journal.RowAccepted, token)
		s.exec("UPDATE jobs SET time_started = 5 WHERE id = ?", id)
		release := store.Change{Job: id, Token: token, Status: status}
		for range 2 {
			s.apply([]store.Change{release}, []store.Outcome{{}})
			want := row{Target: "a", Status: status, Code: -1, ResultNull: true}
			if diff := cmp.Diff(want, s.read(id)); diff != "" {
				s.Errorf("row (-want +got):\n%s", diff)
			}
		}
	}
	others := s.insert("a", journal.RowRunning, "@other1234")
	gone := store.Change{Job: 999_999, Token: token, Status: journal.RowWaiting}
	s.apply([]store.Change{{Job: others, Token: token, Status: journal.RowWaiting}, gone}, []store.Outcome{{}, {}})
	s.expect(others, journal.RowRunning, "@other1234")
}

func applyGuarded(s *suite) {
	cases := []struct{ name, status, owner string }{
		{"reset by hand", journal.RowWaiting, ""},
		{"reset by hand, token left in place", journal.RowWaiting, token},
		{"claimed by another worker", journal.RowAccepted, "@other1234"},
		{"run by another worker", journal.RowRunning, "@other1234"},
		{"owner wiped", journal.RowRunning, ""},
		{"done by another worker", journal.RowDone, ""},
		{"ignored", journal.RowIgnored, ""},
	}
	var changes []store.Change
	var want []store.Outcome
	var before []row
	for i, c := range cases {
		id := s.insert("a", c.status, c.owner)
		change := done(id, ended("ok", code(0), "", "out", ""))
		if i%2 == 0 {
			change = store.Change{Job: id, Token: token, Status: journal.RowRunning, Start: time.Unix(started, 0)}
		}
		changes = append(changes, change)
		want = append(want, store.Outcome{Fate: store.Lost, Found: &journal.Row{Job: id, Target: "a", Status: c.status, Owner: c.owner}})
		before = append(before, s.read(id))
	}
	ours := s.insert("a", journal.RowAccepted, token)
	changes = append(changes, done(999_999, ended("ok", code(0), "", "", "")), done(ours, ended("ok", code(0), "", "", "")))
	want = append(want, store.Outcome{Fate: store.Lost}, store.Outcome{})
	s.apply(changes, want)
	for i, c := range cases {
		if diff := cmp.Diff(before[i], s.read(changes[i].Job)); diff != "" {
			s.Errorf("%s: the row was changed (-before +after):\n%s", c.name, diff)
		}
	}
	s.expect(ours, journal.RowDone, "")
}

func applyAgain(s *suite) {
	id := s.insert("a", journal.RowAccepted, token)
	running := store.Change{Job: id, Token: token, Status: journal.RowRunning, Start: time.Unix(started, 0)}
	end := done(id, ended("fail", nil, "SIGKILL", "", ""))
	for _, change := range []store.Change{running, end, running, end} {
		s.apply([]store.Change{change}, []store.Outcome{{}})
	}
	s.expect(id, journal.RowDone, "SIGKILL")
}

func applyMany(s *suite) {
	const n = 500
	ids := s.insertAll(n, "a", journal.RowAccepted, token)
	var changes []store.Change
	for i, id := range ids {
		if i%5 == 4 {
			s.exec("DELETE FROM jobs WHERE id = ?", id)
		}
		changes = append(changes, done(id, ended("ok", code(i%256), "", "out", "err")))
	}
	var want []store.Outcome
	for i := range ids {
		want = append(want, store.Outcome{Fate: map[bool]store.Fate{true: store.Lost}[i%5 == 4]})
	}
	s.apply(changes, want)
	for i, id := range ids {
		if i%5 == 4 {
			continue
		}
		if got := s.read(id); got.Status != journal.RowDone || got.Code != int64(i%256) {
			s.Fatalf("job %d: %+v, want done with code %d", id, got, i%256)
		}
	}
}

func applyAlike(s *suite) {
	outputs := [][2]string{{"a b", "c"}, {"a", "b c"}, {"a", "b c"}, {`a" "b`, "c"}, {"a", `b" "c`}, {"", "a b c"}, {"", "a b c"}, {"a b", "c"}}
	ids := s.insertAll(len(outputs), "a", journal.RowRunning, token)
	s.exec("UPDATE jobs SET sig = '@other1234' WHERE id = ?", ids[2])
	var changes []store.Change
	want := make([]store.Outcome, len(ids))
	for i, id := range ids {
		changes = append(changes, done(id, ended("ok", code(0), "", outputs[i][0], outputs[i][1])))
	}
	want[2] = store.Outcome{Fate: store.Lost, Found: &journal.Row{Job: ids[2], Target: "a", Status: journal.RowRunning, Owner: "@other1234"}}
	s.apply(changes, want)
	for i, id := range ids {
		if got := s.read(id); i != 2 && [2]string{got.Stdout, got.Stderr} != outputs[i] {
			s.Errorf("job %d: %+v, want the outputs %q", id, got, outputs[i])
		}
	}
	s.expect(ids[2], journal.RowRunning, "@other1234")
}
