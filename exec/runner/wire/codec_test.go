package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"jobd/exec/runner/proc"
	"jobd/journal"
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

func BenchmarkCodec(b *testing.B) {
	code := 0
	m := Message{
		Kind: Ended, ID: ID{Job: 1, Attempt: 1}, Started: journal.Started{Pid: 1, StartTime: 1, BootID: "boot"},
		Done: journal.Done{Result: "ok", Code: &code},
	}
	var d codec
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = m.encode(buffer[:0])
		if n := binary.LittleEndian.Uint32(buffer); int(n) != len(buffer)-lengthBytes {
			b.Fatal(n)
		}
		if _, err := d.decode(buffer[lengthBytes:], 0); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAPeerOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		m    Message
		want string
	}{
		{"no hello", Message{Kind: Start}, "hello expected, got kind 3"},
		{"another version", Message{Kind: Hello, Version: 99}, "the other side speaks version 99, this one 2"},
	}
	for _, test := range tests {
		if err := test.m.CheckHello(); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}
