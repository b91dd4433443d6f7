package wire

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// examples has a message of each kind, with its fields at their extremes.
func examples() []Message {
	code, zero := 255, 0
	started := journal.Started{Pid: 4711, StartTime: 1 << 40, BootID: "boot"}
	done := journal.Done{
		Result: "fail", Code: &code, Reason: "reason", Note: "note",
		Stdout: journal.Output{Kept: []byte("out"), Size: 1 << 40}, Stderr: journal.Output{Kept: []byte{}},
	}
	killed := journal.Done{Result: "fail", Signal: "SIGKILL", Stdout: journal.Output{Kept: []byte{}}, Stderr: journal.Output{Kept: []byte("\x00\xff")}}
	later := journal.Done{Result: "ok", Code: &zero, Stdout: journal.Output{Size: 7}}
	timed := killed
	timed.Elapsed = 1 << 60
	some := ID{Job: 1 << 60, Attempt: 3}
	late := timed
	late.Timeout = 1 << 60
	used, usedLater := late, later
	used.CPU, used.Memory, usedLater.Memory = 1<<60, 1<<60, 1
	whole := ID{Job: 1 << 60, Attempt: 3, Token: "@abcdefghi"}
	limit := Limit{Timeout: 1 << 62, Kill: 1}
	return []Message{
		{Kind: Hello, Version: 2, Instance: "instance", Jobs: []Job{{ID: some, Started: started}, {ID: ID{Job: -1, Attempt: 1}}}},
		{Kind: Hello, Version: 2, Instance: "instance", Jobs: []Job{word(wordTokens), {ID: whole, Started: started, Limit: limit}, {ID: some}}},
		{Kind: Environment, Env: []string{"A=1", "", "B=" + strings.Repeat("x", 100_000)}},
		{Kind: Start, ID: some, Argv: []string{"/bin/sh", "-c", ""}, Dir: "/tmp", MaxOutput: 1 << 30},
		{Kind: Started, ID: some, Started: started},
		{Kind: Refused, ID: some, Text: "why"},
		{Kind: Refused, ID: some, Text: "why", Class: Short},
		{Kind: Signal, ID: some, Signo: 15},
		{Kind: Signalled, ID: some},
		{Kind: Ended, ID: some, Started: started, Done: done},
		{Kind: Ended, ID: some, Started: started, Done: later, Later: true},
		{Kind: Output, ID: some, Started: started, Done: killed},
		{Kind: Fetch, ID: some},
		{Kind: Forget, ID: some},
		{Kind: Start, ID: whole, Argv: []string{"/bin/sh"}, Limit: limit},
		{Kind: Start, ID: some, Argv: []string{"/bin/sh"}},
		{Kind: Started, ID: whole, Started: started},
		{Kind: Refused, ID: whole, Text: "why", Class: Short},
		{Kind: Refused, ID: whole, Text: "why"},
		{Kind: Signal, ID: whole, Signo: 15},
		{Kind: Signalled, ID: whole},
		{Kind: Ended, ID: whole, Started: started, Done: late},
		{Kind: Ended, ID: whole, Started: started, Done: used},
		{Kind: Ended, ID: whole, Started: started, Done: usedLater, Later: true},
		{Kind: Output, ID: whole, Started: started, Done: timed},
		{Kind: Fetch, ID: whole},
		{Kind: Forget, ID: whole},
		{Kind: Start, ID: whole, Argv: []string{"fork"}, Limit: limit, Pool: "mail", Vars: []string{"JOBD_ATTEMPT=2"}},
		{Kind: Start, ID: whole, Argv: []string{"/bin/sh"}, Limit: limit, Vars: []string{}, Account: &proc.Account{Name: "app", UID: 1<<32 - 2, GID: 1, Groups: []uint32{1, 1<<32 - 2}}},
		{Kind: Pools, Wanted: []Pool{{Target: "mail", Mode: "pool", Argv: []string{"/bin/sh"}, Account: &proc.Account{Name: "app", UID: 1, Groups: []uint32{2}}}}},
		{Kind: Pools, Wanted: []Pool{{Target: "mail", Mode: "fork", Argv: []string{"/bin/sh"}, Slots: 3, MaxAge: 1 << 60, Watch: true}}},
		{Kind: Pools, Standings: []Standing{{Target: "mail", Mode: "pool", Recycled: map[string]int64{"max_jobs": 1 << 60}}}, Notes: []Note{{Text: "why"}}},
		{Kind: Withdraw, ID: whole},
		{Kind: Peek, ID: whole, Peek: &Glance{From: [2]int64{-1, 7}, Most: 9}},
		{Kind: Peeked, ID: whole, Peek: &Glance{Parts: [2]Part{{Bytes: []byte("a")}, {Bytes: []byte("b")}}}},
	}
}

// written is messages as they pass.
func written(messages ...Message) []byte {
	var b []byte
	for i := range messages {
		b = messages[i].encode(b)
		b = append(append(b, messages[i].Done.Stdout.Kept...), messages[i].Done.Stderr.Kept...)
	}
	return b
}

func TestMessagesPassUnchanged(t *testing.T) {
	t.Parallel()
	r := NewReader(bytes.NewReader(written(examples()...)))
	for i, want := range examples() {
		got, err := r.Next()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("message %d of kind %d: %+v, want %+v: %v", i, want.Kind, got, want, err)
		}
	}
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	whole := written(Message{Kind: Start, Argv: []string{"/bin/true"}})
	tests := map[string][]byte{
		"an unknown kind":     {1, 0, 0, 0, 99},
		"no body":             {0, 0, 0, 0},
		"too long":            {0, 0, 0, 255},
		"bytes behind it":     append([]byte{byte(len(whole) - 3), 0, 0, 0}, append(whole[4:], 0)...),
		"a limit below 0":     written(Message{Kind: Start, Argv: []string{"/bin/true"}, Limit: Limit{Timeout: -1}}),
		"half a limit":        append([]byte{byte(len(whole) - 2), 0, 0, 0}, append(whole[4:], 0, 0)...),
		"no command":          written(Message{Kind: Start}),
		"more than there are": {3, 0, 0, 0, byte(Environment), 254, 1},
	}
	for name, stream := range tests {
		if m, err := NewReader(bytes.NewReader(stream)).Next(); err == nil {
			t.Errorf("%s: taken as %+v", name, m)
		}
	}
}

// No input makes decoding panic or take memory that was not sent, and encoding writes what it accepts
// the same.
func FuzzDecode(f *testing.F) {
	for _, m := range examples() {
		f.Add(m.encode(nil)[lengthBytes:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var d codec
		m, err := d.decode(body, 1<<10)
		if err != nil {
			return
		}
		again, err := d.decode(m.encode(nil)[lengthBytes:], 1<<10)
		if err != nil {
			t.Fatalf("%+v is not understood: %v", m, err)
		}
		if !m.Later && !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v", m, again)
		}
	})
}

func TestAPeerOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Message{
		"no hello": {Kind: Start}, "another version": {Kind: Hello, Version: 99, Jobs: []Job{word(wordTokens)}},
		"no tokens": {Kind: Hello, Version: Version, Jobs: []Job{word(wordPeeks)}},
	} {
		check.ErrorIs(t, m.CheckHello(), errOtherVersion, "%s", name)
	}
	hello := WorkerHello()
	check.Do(t, hello.CheckHello())
}

// SIGKILL comes so long after SIGTERM was sent, however late that was.
func TestTheStepsOfAnOverrun(t *testing.T) {
	t.Parallel()
	o := Limit{Timeout: 10, Kill: 5}.From(100)
	if at, ever := o.Due(); at != 110 || !ever || o.Happened() {
		t.Errorf("SIGTERM is due at %d, %t", at, ever)
	}
	check.Elements(t, o.Next(300), []unix.Signal{unix.SIGTERM, unix.SIGCONT}, "first come")
	if at, ever := o.Due(); at != 305 || !ever {
		t.Errorf("SIGKILL is due at %d, %t", at, ever)
	}
	check.Elements(t, o.Next(305), []unix.Signal{unix.SIGKILL}, "then come")
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
	check.Elements(t, Limit{}.Vars([]string{"JOBD_DEADLINE=12"}, time.Now()), []string{"JOBD_DEADLINE=12"}, "without a limit it is told")
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

// A worker that stands still must hold up neither the reactor nor the order of what it is told, and
// what waits for it is not encoded meanwhile.
func TestAWorkerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	near, far := proctest.Connected(t)
	o := NewOutbox(near)
	const messages = 2000
	sizes := []int{0, 10, chunk / 2, 3 * chunk}
	kept := bytes.Repeat([]byte("x"), 3*chunk)
	for n := range messages {
		done := journal.Done{Result: "ok", Stdout: journal.Output{Kept: kept[:sizes[n%len(sizes)]]}}
		o.Post(Message{Kind: Output, ID: ID{Job: int64(n), Attempt: 1}, Done: done})
	}
	o.mu.Lock()
	waiting := len(o.messages)
	o.mu.Unlock()
	if waiting < messages/2 {
		t.Errorf("%d messages wait", waiting)
	}
	r := NewReader(far)
	for n := range messages {
		m, err := r.Next()
		if err != nil || m.ID.Job != int64(n) || len(m.Done.Stdout.Kept) != sizes[n%len(sizes)] {
			t.Fatalf("message %d: job %d, %d bytes: %v", n, m.ID.Job, len(m.Done.Stdout.Kept), err)
		}
	}
	o.Close()
	<-o.Written()
}

// What a killed worker still asked for is read, though nobody can be told any more.
func TestALostPeerDoesNotEndReading(t *testing.T) {
	t.Parallel()
	near, far := proctest.Connected(t)
	o := NewOutbox(near)
	m := Message{Kind: Fetch, ID: ID{Job: 7, Attempt: 1}}
	must.Get(far.Write(m.encode(nil)))(t)
	far.Close()
	o.Post(Message{Kind: Forget})
	r := NewReader(near)
	if m, err := r.Next(); err != nil || m.ID.Job != 7 {
		t.Errorf("message %+v: %v", m, err)
	}
	if _, err := r.Next(); !HungUp(err) {
		t.Errorf("error %v", err)
	}
	o.Close()
	<-o.Written()
}

// Seen with `go build`, which gives a program that is up to date the present time: each runner that a
// worker started was taken for one of another build, and replaced, for as long as the worker ran.
func TestATouchedProgramIsOfTheSameBuild(t *testing.T) {
	program := filepath.Join(t.TempDir(), "jobd")
	write := func(path string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte("program"), 0o700))
	}
	write(program)
	before := fileOf(program)
	must.Do(t, os.Chtimes(program, time.Unix(1, 0), time.Unix(1, 0)))
	check.Equal(t, fileOf(program), before, "a touched program is …, and was")
	write(program + ".new")
	must.Do(t, os.Rename(program+".new", program))
	if upgraded := fileOf(program); upgraded == before {
		t.Errorf("another program is %s, too", upgraded)
	}
}
