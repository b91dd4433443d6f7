package wire

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// SIGKILL comes so long after SIGTERM was sent, however late that was.
func TestTheStepsOfAnOverrun(t *testing.T) {
	t.Parallel()
	o := Limit{Timeout: 10, Kill: 5}.From(100)
	if at, ever := o.Due(); at != 110 || !ever || o.Happened() {
		t.Errorf("SIGTERM is due at %d, %t", at, ever)
	}
	if got := o.Next(300); !slices.Equal(got, []unix.Signal{unix.SIGTERM, unix.SIGCONT}) {
		t.Errorf("first come %v", got)
	}
	if at, ever := o.Due(); at != 305 || !ever {
		t.Errorf("SIGKILL is due at %d, %t", at, ever)
	}
	if got := o.Next(305); !slices.Equal(got, []unix.Signal{unix.SIGKILL}) {
		t.Errorf("then come %v", got)
	}
	if at, ever := o.Due(); ever {
		t.Errorf("something more is due at %d", at)
	}
}

func TestLimitsBeyondAnyClock(t *testing.T) {
	t.Parallel()
	const decade = 10 * 365 * 24 * time.Hour
	for _, l := range []Limit{{}, {Kill: time.Second}, {Timeout: math.MaxInt64}} {
		o := l.From(1)
		if at, ever := o.Due(); ever {
			t.Errorf("%+v is over at %d", l, at)
		}
	}
	o := Limit{Timeout: 2 * decade, Kill: math.MaxInt64}.From(7)
	if at, ever := o.Due(); at != 7+int64(2*decade) || !ever {
		t.Errorf("twenty years are over at %d, %t", at, ever)
	}
	o.Next(7)
	if at, ever := o.Due(); ever {
		t.Errorf("SIGKILL is due at %d", at)
	}
}

func TestAnOverrunIsAFailure(t *testing.T) {
	t.Parallel()
	zero := 0
	tests := []struct {
		name  string
		limit Limit
		steps int
		done  journal.Done
		want  journal.Done
	}{
		{"in time", Limit{Timeout: time.Second}, 0, journal.Done{Result: "ok", Code: &zero}, journal.Done{Result: "ok", Code: &zero}},
		{
			"ended with code 0",
			Limit{Timeout: 10 * time.Minute},
			1,
			journal.Done{Result: "ok", Code: &zero},
			journal.Done{Result: "fail", Code: &zero, Timeout: 600, Note: "ended after its timeout of 10m0s, with SIGTERM"},
		},
		{
			"killed",
			Limit{Timeout: 1, Kill: 10 * time.Second},
			2,
			journal.Done{Result: "fail", Signal: "SIGKILL"},
			journal.Done{Result: "fail", Signal: "SIGKILL", Timeout: 1, Note: "ended after its timeout of 1ns, with SIGTERM and, 10s later, SIGKILL"},
		},
		{
			"and killed by somebody else",
			Limit{Timeout: 1500 * time.Millisecond},
			1,
			journal.Done{Result: "fail", Note: "killed by others"},
			journal.Done{Result: "fail", Timeout: 2, Note: "ended after its timeout of 1.5s, with SIGTERM; killed by others"},
		},
	}
	for _, test := range tests {
		o := test.limit.From(0)
		for range test.steps {
			o.Next(0)
		}
		if o.Mark(&test.done); !reflect.DeepEqual(test.done, test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, test.done, test.want)
		}
	}
}
