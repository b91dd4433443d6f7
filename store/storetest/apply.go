package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
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
		{"a rule against some rows does not stop the others", applyRefused},
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
		check.Diff(s, want, s.read(id), "row")
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
				check.Diff(s, c.want, s.read(id), "row")
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
			check.Diff(s, want, s.read(id), "row")
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
	var names []string
	for i, c := range cases {
		for _, what := range []string{journal.RowIgnored, map[bool]string{true: journal.RowRunning, false: journal.RowDone}[i%2 == 0]} {
			id := s.insert("a", c.status, c.owner)
			change := map[string]store.Change{
				journal.RowRunning: {Job: id, Token: token, Status: journal.RowRunning, Start: time.Unix(started, 0)},
				journal.RowDone:    done(id, ended("ok", code(0), "", "out", "")),
				journal.RowIgnored: cancelOf(id),
			}[what]
			if what == journal.RowIgnored && c.status == journal.RowIgnored {
				continue // it is as it should be
			}
			changes, names = append(changes, change), append(names, c.name+", to be "+what)
			want = append(want, store.Outcome{Fate: store.Lost, Found: &journal.Row{Job: id, Target: "a", Status: c.status, Owner: c.owner}})
			before = append(before, s.read(id))
		}
	}
	ours := s.insert("a", journal.RowAccepted, token)
	changes = append(changes, done(999_999, ended("ok", code(0), "", "", "")), done(ours, ended("ok", code(0), "", "", "")))
	want = append(want, store.Outcome{Fate: store.Lost}, store.Outcome{})
	s.apply(changes, want)
	for i, name := range names {
		check.Diff(s, before[i], s.read(changes[i].Job), "%s: the row was changed", name)
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

func applyRefused(s *suite) {
	ids := s.insertAll(20, "a", journal.RowRunning, token)
	s.forbid(fmt.Sprintf("NEW.id IN (%d, %d)", ids[6], ids[16]))
	var changes []store.Change
	for _, id := range ids {
		changes = append(changes, done(id, ended("ok", code(0), "", "out", "")))
	}
	got := must.Get(s.Table.Apply(s.Context(), changes))(s)
	for i, outcome := range got {
		if i != 6 && i != 16 {
			s.expect(ids[i], journal.RowDone, "")
			if outcome != (store.Outcome{}) {
				s.Errorf("row %d: %+v", i, outcome)
			}
			continue
		}
		s.expect(ids[i], journal.RowRunning, token)
		s.names(map[int64]string{ids[i]: outcome.Note}, ids[i])
		want := &journal.Row{Job: ids[i], Target: "a", Status: journal.RowRunning, Owner: token}
		if diff := cmp.Diff(want, outcome.Found); diff != "" || outcome.Fate != store.Refused {
			s.Errorf("row %d has fate %d (-want +got):\n%s", i, outcome.Fate, diff)
		}
	}
}

func lookTests() []test {
	return []test{
		{"rows as they are, and missing ones", lookShowsAll},
		{"nobody waits for a look", lookLocksNothing},
	}
}

func lookShowsAll(s *suite) {
	ids := []int64{999_999}
	want := map[int64]*store.Seen{}
	for i, status := range statuses() {
		owner := ""
		if status == journal.RowAccepted || status == journal.RowRunning {
			owner = tokenOf(i)
		}
		id := s.insert("a", status, owner)
		want[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}, Created: 1}
		ids = append(ids, id, id)
	}
	id := ids[len(ids)-1]
	if _, err := s.DB.ExecContext(s.Context(), "UPDATE jobs SET time_started = 5, time_finished = 7, result = 'fail' WHERE id = ?", id); err != nil {
		s.Fatal(err)
	}
	want[id].Started, want[id].Finished, want[id].Result = 5, 7, "fail"
	got := must.Get(s.Table.Look(s.Context(), ids))(s)
	check.Diff(s, want, got, "rows")
	if got, err := s.Table.Look(s.Context(), nil); err != nil || len(got) > 0 {
		s.Errorf("a look at nothing: %v, %v", got, err)
	}
}

// While another worker's claim holds a row, a look sees it as it was before.
func lookLocksNothing(s *suite) {
	if !s.RowLocks {
		s.Log("transactions of this table wait for each other: the look is made after the claim")
	}
	id := s.insert("a", journal.RowWaiting, "")
	look := func(want string) {
		got, err := s.Table.Look(s.Context(), []int64{id})
		if err != nil || got[id] == nil || got[id].Status != want {
			s.Errorf("a look at a row that is %s: %+v, %v", want, got[id], err)
		}
	}
	_, err := s.Other.ClaimManual(context.Background(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
		if s.RowLocks {
			look(journal.RowWaiting)
		}
		return []journal.Event{{Job: id, Payload: journal.Accepted{Target: "a", Token: token}}}, nil
	})
	must.Do(s, err)
	look(journal.RowAccepted)
}

func cancelTests() []test {
	return []test{
		{"a claim that was not started", cancelClaimed},
		{"a row that nobody has claimed", cancelUnclaimed},
	}
}

// The words of who cancelled a job, and what its row shows of them.
const (
	canceller = "10.0.0.5:4711 via master 10.0.0.9:99"
	cancelled = "[jobd: cancelled by 10.0.0.5 via master 10.0.0.9]\n"
)

// cancelOf is the change that ends a claim which was not started.
func cancelOf(id int64) store.Change {
	return store.Change{
		Job: id, Token: token, Accepted: time.Unix(started, 0), Status: journal.RowIgnored,
		Done: &journal.Done{Note: journal.CancelledBy(canceller)},
	}
}

// ignoredRow is what the application sees of a row that was cancelled before it ran.
func ignoredRow() row {
	return row{Target: "a", Status: journal.RowIgnored, Code: -1, ResultNull: true, Stderr: cancelled}
}

func cancelClaimed(s *suite) {
	for _, status := range []string{journal.RowAccepted, journal.RowRunning} {
		id := s.insert("a", status, token)
		s.exec("UPDATE jobs SET time_started = 5 WHERE id = ?", id)
		for range 2 { // the second time as a mirror that was cut off
			s.apply([]store.Change{cancelOf(id)}, []store.Outcome{{}})
			check.Diff(s, ignoredRow(), s.read(id), "row that was %s", status)
		}
	}
}

func cancelUnclaimed(s *suite) {
	for _, status := range []string{journal.RowWaiting, journal.RowManual} {
		id := s.insert("a", status, "")
		s.ignore(id)
		check.Diff(s, ignoredRow(), s.read(id), "row that was %s", status)
	}
}

// ignore has a row that nobody has claimed cancelled.
func (s *suite) ignore(id int64) {
	s.Helper()
	_, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
		return []journal.Event{{Job: id, Payload: journal.Ignored{Reason: journal.CancelledBy(canceller), By: canceller}}}, nil
	})
	must.Do(s, err)
}

// outputTests check that the row ends in done, whatever a job writes.
func outputTests() []test {
	whole := []struct{ name, output, full, threeByte string }{
		{"empty", "", "", ""},
		{"NUL bytes", "a\x00b\x00", "a\x00b\x00", "a\x00b\x00"},
		{"invalid UTF-8", "a\xffb\xc3(c", "a\uFFFDb\uFFFD(c", "a\uFFFDb\uFFFD(c"},
		{"pitfall 10: emoji", "so \U0001F600 é€", "so \U0001F600 é€", "so \uFFFD é€"},
		{"quotes and backslashes", `it's "quoted" \ \' ? %s ; -- #` + "\r\n\x1a", `it's "quoted" \ \' ? %s ; -- #` + "\r\n\x1a", `it's "quoted" \ \' ? %s ; -- #` + "\r\n\x1a"},
		{"half a character at the end", "é\xc3", "é\uFFFD", "é\uFFFD"},
		{"what looks like a statement", "'; COMMIT; UPDATE jobs SET status='waiting'; --", "'; COMMIT; UPDATE jobs SET status='waiting'; --", "'; COMMIT; UPDATE jobs SET status='waiting'; --"},
		{"a megabyte of newlines", strings.Repeat("\n", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat("\n", 1<<20)},
	}
	var tests []test
	for _, c := range whole {
		tests = append(tests, test{c.name, func(s *suite) {
			want := c.full
			if s.Charset == journal.CharsetThreeByte {
				want = c.threeByte
			}
			s.expectOutput(output(c.output), want)
		}})
	}
	return append(tests, test{"more than was kept", func(s *suite) {
		stream := journal.Output{Kept: []byte("the beginning €"[:len("the beginning €")-1]), Size: 70_000_000}
		s.expectOutput(stream, "the beginning "+"\n[jobd: output cut, 70000000 bytes in all]\n")
	}})
}

// expectOutput lets a job end with the stream as its stdout and its stderr.
func (s *suite) expectOutput(stream journal.Output, want string) {
	s.Helper()
	id := s.insert("a", journal.RowRunning, token)
	s.apply([]store.Change{done(id, &journal.Done{Result: "fail", Code: code(3), Stdout: stream, Stderr: stream})}, []store.Outcome{{}})
	got := s.read(id)
	if got.Status != journal.RowDone || got.Result != "fail" || got.Code != 3 {
		s.Errorf("the row is %s, %s, %d; want done, fail, 3", got.Status, got.Result, got.Code)
	}
	for name, text := range map[string]string{"stdout": got.Stdout, "stderr": got.Stderr} {
		if text != want {
			s.Errorf("%s: %s, want %s", name, brief(text), brief(want))
		}
	}
}

// brief is a text short enough for a message.
func brief(text string) string {
	if len(text) <= 100 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%d bytes, %q … %q", len(text), text[:30], text[len(text)-60:])
}
