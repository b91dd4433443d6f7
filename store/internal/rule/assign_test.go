package rule_test

import (
	"context"
	"errors"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// shape is a table whose columns take NULL for nothing, but stdout.
func shape(owner string, uses store.Uses) *rule.Shape {
	null := rule.Column{Nullable: true}
	return &rule.Shape{
		Owner: owner, Uses: uses, Worker: "node-1",
		Columns: map[string]rule.Column{"sig": null, "ran_by": null, "result": null, "return_code": null, "stdout": {Holds: rule.Text}, "stderr": null},
		Output: func(done *journal.Done, _ bool) (stdout, stderr string) {
			return string(done.Stdout.Kept), string(done.Stderr.Kept)
		},
	}
}

// Pitfalls 11 and 12: a job without a return code, or with one that its column can't hold, must not read as success. A signal
// is cut to its column's width, or left out where the column has no word for it.
func TestWhatAColumnHoldsOfAnEnd(t *testing.T) {
	t.Parallel()
	zero, minus, big := 0, -1, 300
	tiny := rule.Column{Holds: rule.Number, Most: 255}
	small := rule.Column{Holds: rule.Number, Least: -128, Most: 127}
	orNull := func(c rule.Column) rule.Column { c.Nullable = true; return c }
	text := rule.Column{Holds: rule.Text, Length: 5}
	cases := []struct {
		name       string
		column     rule.Column
		code, want any
		sig        rule.Column
		signal     any
	}{
		{"one that fits", small, &minus, int64(-1), text, "SIGTE"},
		{"none", orNull(tiny), nil, nil, orNull(rule.Column{Holds: rule.Words, Words: []string{"sigkill"}}), nil},
		{"none, where NULL does not fit", tiny, nil, int64(255), rule.Column{Holds: rule.Words, Words: []string{"sigterm"}}, "SIGTERM"},
		{"one that does not fit", orNull(tiny), &big, nil, text, "SIGTE"},
		{"one that does not fit, nor does NULL", tiny, &big, int64(255), text, "SIGTE"},
		{"success", tiny, &zero, int64(0), text, "SIGTE"},
		{"none, and neither fits", small, nil, int64(1), text, "SIGTE"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := shape("ran_by", nil)
			s.Columns["return_code"], s.Columns["sig"] = c.column, c.sig
			code, _ := c.code.(*int)
			_, args := rule.Set(s.Write(store.Change{Status: "done", Done: &journal.Done{Code: code, Signal: "SIGTERM"}}, false), brackets)
			if args[3] != c.want || args[5] != c.signal {
				t.Errorf("code %v and signal %v, want %v and %v", args[3], args[5], c.want, c.signal)
			}
		})
	}
	s := shape("sig", nil)
	s.Columns["sig"] = text
	if _, args := rule.Set(s.Write(store.Change{Status: journal.RowManual}, false), brackets); args[1] != "" {
		t.Errorf("given back, and the owner column takes no NULL: %v", args)
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
	f.Unserved(map[string]string{"a b": "it is too long"})
	if got, want := f.Err().Error(), "it is broken; make it anew; and it can't be served: it is too long"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if last := f.All()[2]; last.Severity != store.Warning || last.String() != "table `jobs`: it is slow" {
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
	var own error
	forgot := 0
	f := rule.Failures{
		Sort: func(err error) (fault rule.Fault, certain bool) {
			switch {
			case errors.Is(err, dubious):
				return rule.Unusable, false
			case errors.Is(err, unusable):
				return rule.Unusable, true
			case errors.Is(err, broken):
				return rule.Unreachable, true
			}
			return rule.Moment, true
		},
		Check: func(context.Context) error { return own }, Forget: func() { forgot++ }, Explain: func(err error) error { return err },
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
