package rule_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// dialect is a table whose columns take NULL for nothing.
type dialect struct {
	owner string
	uses  store.Uses
}

func (d dialect) Owner() string           { return d.owner }
func (dialect) Sig() string               { return "sig" }
func (d dialect) Uses(column string) bool { return d.uses.Has(column) }

func (dialect) Number(_ string, value int64) any { return value }

func (dialect) Word(_, text string) any {
	if text == "" {
		return nil
	}
	return text
}

func (dialect) Code(code *int) any { return rule.Code(code, true, true) }

func (dialect) Nothing(column string) (any, bool) {
	return rule.NothingIn(column, column != "stdout", column == "stdout")
}

func (dialect) Output(done *journal.Done) (stdout, stderr string) {
	return string(done.Stdout.Kept), string(done.Stderr.Kept)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	at, code := time.Unix(5, 0), 3
	done := store.Change{Status: journal.RowDone, Start: at, Finish: time.Unix(7, 0), Done: &journal.Done{
		Result: "fail", Code: &code, Stdout: journal.Output{Kept: []byte("out")}, Stderr: journal.Output{Kept: []byte("err")},
	}}
	killed := store.Change{Status: journal.RowDone, Finish: time.Unix(7, 0), Done: &journal.Done{Result: "fail", Signal: "SIGKILL"}}
	cases := []struct {
		name   string
		owner  string
		change store.Change
		want   string
		args   []any
	}{
		{"running", "sig", store.Change{Status: journal.RowRunning, Start: at}, "[status] = ?, [time_started] = ?", []any{"running", int64(5)}},
		{"given back", "sig", store.Change{Status: journal.RowManual}, "[status] = ?, [sig] = ?, [time_started] = ?", []any{"manual", nil, int64(0)}},
		{
			"cancelled before it ran", "sig",
			store.Change{Status: journal.RowIgnored, Done: &journal.Done{Stderr: journal.Output{Kept: []byte("why")}}},
			"[status] = ?, [sig] = ?, [time_started] = ?, [stderr] = ?",
			[]any{"ignored", nil, int64(0), "why"},
		},
		{
			"done, and tokens stand in sig", "SIG", done,
			"[status] = ?, [time_started] = ?, [time_finished] = ?, [result] = ?, [return_code] = ?, [sig] = ?, [stdout] = ?, [stderr] = ?",
			[]any{"done", int64(5), int64(7), "fail", int64(3), nil, "out", "err"},
		},
		{
			"killed, never started, and tokens stand elsewhere", "ran_by", killed,
			"[status] = ?, [time_finished] = ?, [result] = ?, [return_code] = ?, [ran_by] = ?, [sig] = ?, [stdout] = ?, [stderr] = ?",
			[]any{"done", int64(7), "fail", nil, "node-1", "SIGKILL", "", ""},
		},
	}
	brackets := func(name string) string { return "[" + name + "]" }
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, args := rule.Set(rule.Write(c.change, "node-1", dialect{owner: c.owner}), brackets)
			if got != c.want || !cmp.Equal(args, c.args) {
				t.Errorf("SET %s with %v,\nwant %s with %v", got, args, c.want, c.args)
			}
		})
	}
}

// A job without a return code, or with one that its column can't hold, must not read as success.
func TestCode(t *testing.T) {
	t.Parallel()
	zero, minus := 0, -1
	cases := []struct {
		name           string
		code           *int
		nullable, fits bool
		want           any
	}{
		{"one that fits", &minus, true, true, int64(-1)},
		{"none", nil, true, true, nil},
		{"none, where NULL does not fit", nil, false, true, int64(255)},
		{"one that does not fit", &minus, true, false, nil},
		{"one that does not fit, nor does NULL", &minus, false, false, int64(1)},
		{"success that does not fit, nor does NULL", &zero, false, false, int64(0)},
		{"none, and neither fits", nil, false, false, int64(1)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := rule.Code(c.code, c.nullable, c.fits); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	f := rule.Findings{Table: "table `jobs`"}
	f.Warn("", "it is %s", "slow")
	if err := f.Err(); err != nil || f.IsFaulty() {
		t.Errorf("a warning is an error: %v", err)
	}
	f.Fault("make it anew", "it is broken")
	f.Unserved("a b", "it is too long", "")
	rule.FaultsFirst(f.List)
	if got, want := f.Err().Error(), "it is broken; make it anew; and it can't be served: it is too long"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if last := f.List[2]; last.Severity != store.Warning || last.String() != "table `jobs`: it is slow" {
		t.Errorf("behind the faults stands %q", last)
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	called := 0
	s := rule.Servers{OnServer: func() { called++ }}
	var another *store.AnotherServer
	if err := s.AllowClaim(t.Context(), "one"); !errors.As(err, &another) || another.Confirmed != "" || called != 1 {
		t.Errorf("before any was confirmed: %v, %d calls", err, called)
	}
	s.Confirm("one")
	s.Reach("one")
	if err := s.AllowClaim(t.Context(), "one"); err != nil || called != 1 {
		t.Errorf("on the confirmed one: %v, %d calls", err, called)
	}
	s.Reach("two")
	if err := s.AllowClaim(t.Context(), "two"); !errors.As(err, &another) || another.Confirmed != "one" || called != 3 {
		t.Errorf("on another one: %v, %d calls", err, called)
	}
	if err := s.AllowClaim(store.Comparing(context.Background()), "two"); err != nil || called != 3 {
		t.Errorf("to compare rows: %v, %d calls", err, called)
	}
}

// Of an error that a trigger may have raised the table itself is asked; of what it says itself it
// is not.
func TestFailures(t *testing.T) {
	t.Parallel()
	dubious, unusable, broken := errors.New("dubious"), errors.New("unusable"), errors.New("broken")
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	var own error
	forgot := 0
	f := rule.Failures{
		IsDubious: is(dubious), IsUnusable: is(unusable), IsUnreachable: is(broken),
		Check: func() error { return own }, Forget: func() { forgot++ }, Explain: func(err error) error { return err },
	}
	if err := f.Fail("try", dubious); store.IsAway(err) || err.Error() != "try: dubious" {
		t.Errorf("a trigger's error: %v", err)
	}
	own = &store.Unreachable{Op: "connect", Err: broken}
	if err := f.Fail("try", dubious); !store.IsAway(err) || err.Error() != "try: connect: broken (first seen as: dubious)" {
		t.Errorf("the table's error: %v", err)
	}
	var known *store.Unusable
	if err := f.Fail("try", unusable); !errors.As(err, &known) || forgot != 1 {
		t.Errorf("%v, forgot %d times; want that the table can't be used", err, forgot)
	}
	if err := f.Fail("try", broken); !store.IsAway(err) || forgot != 2 {
		t.Errorf("%v, forgot %d times; want that the table is away", err, forgot)
	}
	refused := &store.RefusedRows{Rows: map[int64]string{1: "x"}, Err: unusable}
	if err := f.FailClaim("claim", refused); store.IsAway(err) || err.Error() != "claim: the table refuses the update: unusable" {
		t.Errorf("a claim of refused rows: %v", err)
	}
}
