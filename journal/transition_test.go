package journal

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// jobPayloads holds a payload of each kind that is about a job. Attempt 1 follows
// no start at all, see TestAttemptsCount for the rest.
var jobPayloads = []Payload{
	Accepted{Target: "t", Token: "@a"},
	Ignored{Reason: "no launcher"},
	Released{Reason: "stop"},
	Running{Attempt: 1},
	Started{Pid: 7, StartTime: 9, BootID: "b"},
	Signal{Signo: 15, By: "me"},
	Done{Result: "ok"},
	Conflict{Wanted: "done"},
	Cancelled{By: "me"},
	Retried{To: RowWaiting},
}

// workerPayloads holds a payload of each kind that is about the worker.
var workerPayloads = []Payload{
	Opened{Name: "w", Targets: map[string]int{"t": 1}},
	Closed{Reason: "stop"},
	Paused{Targets: []string{"t"}},
	Continued{Targets: []string{"t"}},
	TargetAdded{Target: "u", Concurrency: 2},
	TargetRemoved{Target: "u"},
	ConcurrencySet{Target: "t", Concurrency: 3},
}

// paths leads a job to each status.
var paths = map[Status][]Payload{
	StatusNone:     nil,
	StatusAccepted: {Accepted{Target: "t"}},
	StatusStarting: {Accepted{Target: "t"}, Running{Attempt: 1}},
	StatusRunning:  {Accepted{Target: "t"}, Running{Attempt: 1}, Started{Pid: 7}},
	StatusDone:     {Accepted{Target: "t"}, Running{Attempt: 1}, Started{Pid: 7}, Done{Result: "ok"}},
	StatusReleased: {Accepted{Target: "t"}, Released{}},
	StatusIgnored:  {Ignored{}},
	StatusConflict: {Accepted{Target: "t"}, Conflict{}},
}

// legal is the transition table once more, as the design has it.
var legal = map[Status]map[Kind]Status{
	StatusNone:     {KindAccepted: StatusAccepted, KindIgnored: StatusIgnored, KindConflict: StatusNone, KindRetried: StatusRetried},
	StatusAccepted: {KindReleased: StatusReleased, KindRunning: StatusStarting, KindConflict: StatusConflict, KindCancelled: StatusIgnored},
	StatusStarting: {
		KindReleased: StatusReleased, KindRunning: StatusStarting, KindStarted: StatusRunning,
		KindDone: StatusDone, KindConflict: StatusConflict, KindCancelled: StatusIgnored,
	},
	StatusRunning:  {KindSignal: StatusRunning, KindDone: StatusDone, KindConflict: StatusRunning},
	StatusDone:     {KindAccepted: StatusAccepted, KindIgnored: StatusIgnored, KindConflict: StatusDone, KindRetried: StatusRetried},
	StatusReleased: {KindAccepted: StatusAccepted, KindIgnored: StatusIgnored, KindConflict: StatusReleased, KindRetried: StatusRetried},
	StatusIgnored:  {KindAccepted: StatusAccepted, KindIgnored: StatusIgnored, KindConflict: StatusIgnored, KindRetried: StatusRetried},
	StatusConflict: {KindAccepted: StatusAccepted, KindIgnored: StatusIgnored, KindConflict: StatusConflict, KindRetried: StatusRetried},
}

func TestTransitionTable(t *testing.T) {
	t.Parallel()
	for status, path := range paths {
		for _, payload := range slices.Concat(jobPayloads, workerPayloads) {
			t.Run(fmt.Sprintf("%s after %q", payload.Kind(), status), func(t *testing.T) {
				t.Parallel()
				state := stateAfter(t, path)
				before := state.Job(1)
				err := state.Apply(Event{Seq: state.Seq + 1, Job: 1, Payload: payload})
				want, ok := legal[status][payload.Kind()]
				if ok {
					if err != nil || state.Job(1).Status != want {
						t.Fatalf("status %q, error %v; want %q", state.Job(1).Status, err, want)
					}
					return
				}
				var illegal *IllegalError
				if !errors.As(err, &illegal) || illegal.Job != 1 || illegal.kind != payload.Kind() || illegal.status != status {
					t.Fatalf("error %#v", err)
				}
				if diff := cmp.Diff(before, state.Job(1)); diff != "" || state.Seq != uint64(len(path)) {
					t.Fatalf("a refused event changed the state: %s", diff)
				}
			})
		}
	}
}

// A conflict of an ignored event takes that back, and touches nothing else.
func TestAConflictOfAnIgnoringTakesItBack(t *testing.T) {
	t.Parallel()
	for status, path := range paths {
		t.Run(fmt.Sprintf("after %q", status), func(t *testing.T) {
			t.Parallel()
			state := stateAfter(t, path)
			want := state.Job(1)
			at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
			if status == StatusIgnored {
				want = Job{ID: 1, Status: StatusConflict, Ended: at, Reason: "a trigger"}
			}
			conflict := Conflict{Wanted: RowIgnored, Reason: "a trigger"}
			must.Do(t, state.Apply(Event{Seq: state.Seq + 1, Time: at, Job: 1, Payload: conflict}))
			check.Equal(t, cmp.Diff(want, state.Job(1)), "", "job (-want +got)")
		})
	}
}

func stateAfter(t *testing.T, path []Payload) *State {
	t.Helper()
	state := &State{KeepEnded: true}
	for i, payload := range path {
		must.Do(t, state.Apply(Event{Seq: uint64(i + 1), Job: 1, Payload: payload}))
	}
	return state
}

func TestWorkerEventsAreAboutNoJob(t *testing.T) {
	t.Parallel()
	for _, payload := range jobPayloads {
		err := (&State{}).Apply(Event{Seq: 1, Payload: payload})
		var illegal *IllegalError
		if !errors.As(err, &illegal) || !strings.Contains(err.Error(), "needs a job") {
			t.Errorf("%s without a job: %v", payload.Kind(), err)
		}
	}
	for _, payload := range workerPayloads {
		if err := (&State{}).Apply(Event{Seq: 1, Payload: payload}); err != nil {
			t.Errorf("%s: %v", payload.Kind(), err)
		}
	}
}

func TestWorkerEventsFold(t *testing.T) {
	t.Parallel()
	state := &State{}
	apply := func(p Payload) {
		t.Helper()
		must.Do(t, state.Apply(Event{Seq: state.Seq + 1, Payload: p}))
	}
	expect := func(open bool, targets map[string]Target) {
		t.Helper()
		if diff := cmp.Diff(targets, state.Targets); diff != "" || state.Open != open || state.Name != "w" {
			t.Fatalf("open %v, name %q, targets: %s", state.Open, state.Name, diff)
		}
	}
	apply(Opened{Name: "w", Targets: map[string]int{"a": 1, "b": 2}})
	apply(Paused{Targets: []string{"a", "unknown"}})
	apply(TargetAdded{Target: "c", Concurrency: 3})
	apply(ConcurrencySet{Target: "a", Concurrency: 9})
	expect(true, map[string]Target{"a": {9, true}, "b": {2, false}, "c": {3, false}})
	apply(TargetRemoved{Target: "b"})
	apply(Continued{Targets: []string{"a"}})
	apply(Closed{})
	expect(false, map[string]Target{"a": {9, false}, "c": {3, false}})
	apply(Opened{Name: "w", Targets: map[string]int{"z": 1}})
	expect(true, map[string]Target{"z": {1, false}})
}

func TestAttemptsCount(t *testing.T) {
	t.Parallel()
	accepted, started := Accepted{Target: "t"}, Started{Pid: 7}
	for name, c := range map[string]struct {
		path []Payload
		next int
		ok   bool
	}{
		"first is 1":                    {[]Payload{accepted}, 1, true},
		"first is not 0":                {[]Payload{accepted}, 0, false},
		"first is not 2":                {[]Payload{accepted}, 2, false},
		"again without a process":       {[]Payload{accepted, Running{Attempt: 1}}, 1, true},
		"one on without a process":      {[]Payload{accepted, Running{Attempt: 1}}, 2, true},
		"never again after a process":   {[]Payload{accepted, Running{Attempt: 1}, started}, 1, false},
		"one on after a process":        {[]Payload{accepted, Running{Attempt: 1}, started}, 2, true},
		"two on after a process":        {[]Payload{accepted, Running{Attempt: 1}, started}, 3, false},
		"a new claim counts from 1":     {[]Payload{accepted, Running{Attempt: 1}, started, Done{}, accepted}, 1, true},
		"a new claim forgets the count": {[]Payload{accepted, Running{Attempt: 1}, started, Done{}, accepted}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := stateAfter(t, c.path)
			err := state.Apply(Event{Seq: state.Seq + 1, Job: 1, Payload: Running{Attempt: c.next}})
			must.Equal(t, (err == nil), c.ok, "error %v", err)
			if c.ok && (state.Job(1).Attempt != c.next || state.Job(1).Process != nil) {
				t.Fatalf("job %+v", state.Job(1))
			}
		})
	}
}

func TestApplyRefusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	state := &State{Seq: 4, Time: at}
	for name, e := range map[string]Event{
		"a gap":          {Seq: 6, Time: at, Payload: Closed{}},
		"a repetition":   {Seq: 4, Time: at, Payload: Closed{}},
		"time backwards": {Seq: 5, Time: at.Add(-1), Payload: Closed{}},
	} {
		if err := state.Apply(e); err == nil || state.Seq != 4 {
			t.Errorf("%s: error %v, seq %d", name, err, state.Seq)
		}
	}
}

// A job that runs stays what it is when it is cancelled, and is known to be, in checkpoints too.
func TestCancelledWhileItRuns(t *testing.T) {
	t.Parallel()
	by := "10.0.0.5:4711"
	for _, status := range []Status{StatusStarting, StatusRunning} {
		state := stateAfter(t, paths[status])
		state.Jobs[1].Token = "@a"
		now := state.Time.Add(time.Second)
		for i, grace := range []time.Duration{time.Minute, 0} { // the newest one counts
			wish := Cancelled{By: by, Runs: true, Grace: grace.Microseconds(), Token: "@a"}
			if err := state.Apply(Event{Seq: state.Seq + 1, Time: now, Job: 1, Payload: wish}); err != nil {
				t.Fatalf("%s, cancelled %d times: %v", status, i+1, err)
			}
			want := &Cancellation{Time: Moment{now}, By: by, Grace: grace.Microseconds()}
			data := must.Get(EncodeCheckpoint(state))(t)
			again := must.Get(DecodeCheckpoint(data))(t)
			for _, s := range []*State{state, again} {
				if job := s.Job(1); job.Status != status || !cmp.Equal(job.Cancelled, want) {
					t.Errorf("%s: then the job is %s, cancelled %+v; want %+v", status, job.Status, job.Cancelled, want)
				}
			}
			if deadline := state.Job(1).Cancelled.Deadline(); !deadline.Equal(now.Add(grace)) {
				t.Errorf("it is killed at %s", deadline)
			}
		}
	}
}

// A job that was never started does not run on, and another claim's news is none of its business.
func TestCancelledIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status Status
		wish   Cancelled
	}{
		"as running, where it was not started": {StatusAccepted, Cancelled{Runs: true}},
		"as not started, where it runs":        {StatusRunning, Cancelled{}},
		"of another claim":                     {StatusAccepted, Cancelled{Token: "@b"}},
		"of another claim that ran":            {StatusRunning, Cancelled{Token: "@b", Runs: true}},
		"after its end":                        {StatusDone, Cancelled{Runs: true}},
	} {
		state := stateAfter(t, paths[c.status])
		state.Jobs[1].Token = "@a"
		if err := state.Apply(Event{Seq: state.Seq + 1, Time: state.Time, Job: 1, Payload: c.wish}); err == nil {
			t.Errorf("%s: the job was cancelled", name)
		}
		if job := state.Job(1); job.Status != c.status || job.Cancelled != nil {
			t.Errorf("%s: the job is %s then, cancelled %+v", name, job.Status, job.Cancelled)
		}
	}
}

// What the mirror finds later changes nothing of a claim that was cancelled.
func TestCancelledIsOver(t *testing.T) {
	t.Parallel()
	state := stateAfter(t, []Payload{Accepted{Target: "t", Token: "@a"}, Cancelled{By: "10.0.0.5:1", Token: "@a"}})
	conflict := Conflict{Wanted: RowIgnored, Reason: "done", Token: "@a"}
	must.Do(t, state.Apply(Event{Seq: state.Seq + 1, Time: state.Time, Job: 1, Payload: conflict}))
	if job := state.Job(1); job.Status != StatusIgnored || job.Reason != "cancelled by 10.0.0.5" {
		t.Errorf("the job is %s, because %q", job.Status, job.Reason)
	}
}

// Rows tell who cancelled their jobs by address, without the port.
func TestCancelledBy(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{
		"10.0.0.5:4711":                     "cancelled by 10.0.0.5",
		"[::1]:4711 via master 10.0.0.9:99": "cancelled by ::1 via master 10.0.0.9",
		"master 10.0.0.9:99":                "cancelled by master 10.0.0.9",
		"somebody":                          "cancelled by somebody",
	} {
		check.Equal(t, CancelledBy(by), want, "%s", by)
	}
}

// A request that has a connection and was never sent may be announced once more under its number; a
// process that was there counts. What runs a job outlives a checkpoint.
func TestARequestThatWasNeverSentMayBeAnnouncedOnceMore(t *testing.T) {
	t.Parallel()
	for address, legal := range map[string]bool{"https://[::1]:443": true, "": false} {
		var s State
		for i, payload := range []Payload{
			Accepted{Target: "t", Token: "@a"}, Running{Attempt: 1, Executor: "http"}, Started{Address: address}, Running{Attempt: 1, Executor: "fork"},
		} {
			err := s.Apply(Event{Seq: uint64(i + 1), Time: time.Unix(int64(i+1), 0).UTC(), Job: 1, Payload: payload})
			var illegal *IllegalError
			if refused := errors.As(err, &illegal); err != nil && !refused || refused != (i == 3 && !legal) {
				t.Errorf("address %q, event %d: %v", address, i, err)
			}
			text := must.Get(EncodeCheckpoint(&s))(t)
			again := must.Get(DecodeCheckpoint(text))(t)
			check.Diff(t, s.Job(1), again.Job(1), "address %q, event %d: a checkpoint changes the job", address, i)
		}
	}
}

// each gives an empty payload of every kind that is registered.
func each(t *testing.T) map[Kind]Payload {
	t.Helper()
	payloads := make(map[Kind]Payload)
	for _, kind := range Kinds() {
		payload, err := DecodePayload(kind, []byte(`{}`), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, twice := payloads[kind]; twice || payload.Kind() != kind {
			t.Errorf("%s is registered for a %T, or twice", kind, payload)
		}
		payloads[kind] = payload
	}
	return payloads
}

// The registry knows every payload that there is.
func TestEveryPayloadIsRegistered(t *testing.T) {
	t.Parallel()
	payloads := each(t)
	file := must.Get(parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0))(t)
	var constants, methods int
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			if decl.Tok == token.CONST {
				constants += len(decl.Specs)
			}
		case *ast.FuncDecl:
			if decl.Recv != nil && decl.Name.Name == "Kind" {
				methods++
			}
		}
	}
	if len(payloads) != constants || len(payloads) != methods {
		t.Errorf("%d kinds are registered, of %d constants and %d payloads", len(payloads), constants, methods)
	}
}

// Every kind means something: to the state, or to a job of some status, and never to both.
func TestEveryKindMeansSomething(t *testing.T) {
	t.Parallel()
	statuses := []Status{StatusNone, StatusAccepted, StatusStarting, StatusRunning, StatusDone, StatusReleased, StatusIgnored, StatusConflict}
	for kind, payload := range each(t) {
		ofWorker := (&State{}).Apply(Event{Seq: 1, Payload: payload}) == nil
		ofJob := slices.ContainsFunc(statuses, func(s Status) bool { return s.allows(kind) })
		if ofWorker == ofJob {
			t.Errorf("%s is of the worker: %t, of a job: %t", kind, ofWorker, ofJob)
		}
	}
}

// An event that names its claim is about that claim: whatever has a token says so, save the event
// that makes the claim.
func TestEveryTokenCounts(t *testing.T) {
	t.Parallel()
	for kind, payload := range each(t) {
		value := reflect.New(reflect.TypeOf(payload)).Elem()
		field := value.FieldByName("Token")
		if !field.IsValid() || kind == KindAccepted {
			continue
		}
		field.SetString("@token")
		check.Equal(t, tokenOf(value.Interface().(Payload)), "@token", "the token of %s counts for nothing", kind)
	}
}

// The documentation has a row for every kind.
func TestEveryKindIsDocumented(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../docs/journal.md"))(t)
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, name := range strings.Split(cells[1], ",") {
				documented[strings.Trim(name, " `")] = true
			}
		}
	}
	for _, kind := range Kinds() {
		if !documented[string(kind)] {
			t.Errorf("docs/journal.md has no row of %s", kind)
		}
	}
}

func TestOutputAsText(t *testing.T) {
	t.Parallel()
	const mark = "\n[jobd: output cut, 100 bytes in all]\n"
	for name, c := range map[string]struct {
		kept    string
		size    int64 // 0: nothing was cut
		limit   int
		charset Charset
		want    string
	}{
		"plain":                                {kept: "out\n", want: "out\n"},
		"nothing":                              {},
		"zero bytes":                           {kept: "a\x00b", want: "a\x00b"},
		"not UTF-8":                            {kept: "a\xffb\xc3", want: "a�b�"},
		"all of Unicode":                       {kept: "€ 🙂", want: "€ 🙂"},
		"three bytes a character":              {kept: "€ 🙂", charset: CharsetThreeByte, want: "€ �"},
		"the last character of three":          {kept: "\uffff", charset: CharsetThreeByte, want: "\uffff"},
		"cut by the worker":                    {kept: "abc", size: 100, want: "abc" + mark},
		"cut by the worker inside one":         {kept: "ab\xe2\x82", size: 100, want: "ab" + mark},
		"cut by the worker after bad bytes":    {kept: "ab\xff", size: 100, want: "ab�" + mark},
		"cut by the worker, nothing kept":      {size: 100, want: mark},
		"inside one, but nothing was cut":      {kept: "ab\xe2\x82", want: "ab�"},
		"just fits":                            {kept: "abcde", limit: 5, want: "abcde"},
		"does not fit":                         {kept: strings.Repeat("x", 100), limit: 50, want: strings.Repeat("x", 50-len(mark)) + mark},
		"does not fit, inside a character":     {kept: strings.Repeat("€", 33) + "x", limit: 50, want: strings.Repeat("€", (50-len(mark))/3) + mark},
		"grows over the limit":                 {kept: strings.Repeat("\xffa", 50), limit: 100, want: strings.Repeat("�a", (100-len(mark))/4) + mark},
		"both cut":                             {kept: strings.Repeat("x", 60), size: 100, limit: 50, want: strings.Repeat("x", 50-len(mark)) + mark},
		"fits but for the mark":                {kept: strings.Repeat("x", 40), size: 100, limit: 50, want: strings.Repeat("x", 50-len(mark)) + mark},
		"limit is the mark":                    {kept: strings.Repeat("x", 100), limit: len(mark), want: mark},
		"limit below the mark":                 {kept: strings.Repeat("x", 100), limit: 5, want: "xxxxx"},
		"limit below the mark, in a character": {kept: strings.Repeat("€", 33) + "x", limit: 5, want: "€"},
		"limit below one character":            {kept: "€", size: 100, limit: 2, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Output{Kept: []byte(c.kept), Size: max(c.size, int64(len(c.kept)))}
			must.Equal(t, o.Text(c.limit, c.charset), c.want)
		})
	}
}

func TestTextFitsTheColumn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kept := rapid.SliceOfN(rapid.SampledFrom([]byte("a\x00\xff\xf0\x9f\x99\x82\xe2\x82\xac")), 0, 90).Draw(t, "kept")
		o := Output{Kept: kept, Size: int64(len(kept) + rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "more"))}
		limit := rapid.IntRange(1, 80).Draw(t, "limit")
		text := o.Text(limit, CharsetThreeByte)
		if len(text) > limit || !utf8.ValidString(text) {
			t.Fatalf("%q of %d bytes", text, limit)
		}
		for _, r := range text {
			if r > 0xffff {
				t.Fatalf("%q holds %U", text, r)
			}
		}
	})
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for kept, want := range map[string]string{
		"one":                                     "one",
		"one\ntwo":                                "two",
		"one\ntwo\n":                              "two",
		"one\r\n two \r\n\r\n":                    "two",
		"one\ntwo\n \t\v\f\r\n":                   "two",
		"one\n\x00\x07\n\u00a0\u2003\n":           "one",
		"progress 1%\rprogress 100%\r":            "progress 100%",
		"\x1b[31mred":                             "\x1b[31mred",
		"one\n\xff\xfe":                           "\xff\xfe",
		"one\n€ \u202e":                           "€ \u202e",
		strings.Repeat("x", 1<<20):                strings.Repeat("x", 1<<20),
		"end" + strings.Repeat("\n \x00", 1<<20):  "end",
		strings.Repeat("x\n", 1<<20) + "the end ": "the end",
	} {
		if got := (Output{Kept: []byte(kept)}).LastLine(); string(got) != want {
			t.Errorf("%.40q: %.40q, want %.40q", kept, got, want)
		}
	}
	for _, kept := range [][]byte{nil, {}, []byte("\n"), []byte(" \r\n\x00\t\n"), bytes.Repeat([]byte("\n"), 1<<20)} {
		if got := (Output{Kept: kept}).LastLine(); got != nil {
			t.Errorf("%.40q: %q, want nil", kept, got)
		}
	}
}
