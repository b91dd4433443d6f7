package runner

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"jobd/journal"
)

// examples has a message of each kind, with its fields at their extremes.
func examples() []message {
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
	some := id{Job: 1 << 60, Attempt: 3}
	return []message{
		{Kind: kindHello, Version: 2, Instance: "instance", Jobs: []process{{ID: some, Started: started}, {ID: id{-1, 1}}}},
		{Kind: kindEnvironment, Env: []string{"A=1", "", "B=" + strings.Repeat("x", 100_000)}},
		{Kind: kindStart, ID: some, Argv: []string{"/bin/sh", "-c", ""}, Dir: "/tmp", MaxOutput: 1 << 30},
		{Kind: kindStarted, ID: some, Started: started},
		{Kind: kindRefused, ID: some, Text: "why"},
		{Kind: kindRefused, ID: some, Text: "why", Class: classShort},
		{Kind: kindSignal, ID: some, Signo: 15},
		{Kind: kindSignalled, ID: some},
		{Kind: kindEnded, ID: some, Started: started, Done: done},
		{Kind: kindEnded, ID: some, Started: started, Done: later, Later: true},
		{Kind: kindOutput, ID: some, Started: started, Done: killed},
		{Kind: kindOutput, ID: some, Started: started, Done: timed, Timed: true},
		{Kind: kindFetch, ID: some},
		{Kind: kindForget, ID: some},
	}
}

// written is messages as they pass.
func written(messages ...message) []byte {
	var b []byte
	for i := range messages {
		b = messages[i].encode(b)
		b = append(append(b, messages[i].Done.Stdout.Kept...), messages[i].Done.Stderr.Kept...)
	}
	return b
}

func TestMessagesPassUnchanged(t *testing.T) {
	t.Parallel()
	w := newWire(bytes.NewReader(written(examples()...)))
	for i, want := range examples() {
		got, err := w.next()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("message %d of kind %d: %+v, want %+v: %v", i, want.Kind, got, want, err)
		}
	}
}

// What came at once is given at once, up to what is not whole yet.
func TestMessagesAreReceivedInBatches(t *testing.T) {
	t.Parallel()
	stream := written(message{Kind: kindForget}, message{Kind: kindFetch}, message{Kind: kindSignal, Signo: 9})
	w := newWire(bytes.NewReader(stream[:len(stream)-1]))
	batch, err := w.receive()
	if err != nil || len(batch) != 2 || batch[0].Kind != kindForget || batch[1].Kind != kindFetch {
		t.Errorf("batch %+v: %v", batch, err)
	}
	if batch, err := w.receive(); !hungUp(err) || len(batch) != 0 {
		t.Errorf("half a message is %+v: %v", batch, err)
	}
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	whole := written(message{Kind: kindStart, Argv: []string{"/bin/true"}})
	tests := map[string][]byte{
		"an unknown kind":     {1, 0, 0, 0, 99},
		"no body":             {0, 0, 0, 0},
		"too long":            {0, 0, 0, 255},
		"bytes behind it":     append([]byte{byte(len(whole) - 3), 0, 0, 0}, append(whole[4:], 0)...),
		"no command":          written(message{Kind: kindStart}),
		"more than there are": {3, 0, 0, 0, byte(kindEnvironment), 254, 1},
	}
	for name, stream := range tests {
		if m, err := newWire(bytes.NewReader(stream)).next(); err == nil {
			t.Errorf("%s: taken as %+v", name, m)
		}
	}
}

// Whatever comes, decoding neither panics nor takes memory that was not sent, and what it
// takes it would write the same.
func FuzzDecode(f *testing.F) {
	for _, m := range examples() {
		f.Add(m.encode(nil)[lengthBytes:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var d decoder
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
	m := ended(id{1, 1}, journal.Started{Pid: 1, StartTime: 1, BootID: "boot"}, journal.Done{Result: "ok", Code: &code})
	var d decoder
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
