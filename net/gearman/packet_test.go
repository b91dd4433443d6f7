package gearman

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// packet is a packet as a peer sends it.
func packet(magic string, kind Kind, args ...string) []byte {
	raw := begin(nil, kind, args, -1)
	return append([]byte("\x00"+magic), raw[4:]...)
}

func anyStep() error { return nil }

func TestPackets(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		raw  []byte
		want head
		args []string
		err  error
	}{
		{name: "a submission whose workload has NUL bytes", raw: packet("REQ", SubmitJob, "f", "u", "a\x00b"), want: head{SubmitJob, 7, true}, args: []string{"f", "u", "a\x00b"}},
		{name: "empty arguments", raw: packet("REQ", SubmitJobBg, "", "", ""), want: head{SubmitJobBg, 2, true}, args: []string{"", "", ""}},
		{name: "no arguments", raw: packet("REQ", GrabJob), want: head{GrabJob, 0, true}},
		{name: "a body where none belongs", raw: packet("REQ", PreSleep, "x"), want: head{PreSleep, 1, true}},
		{name: "too few arguments", raw: packet("REQ", SubmitJob, "f", "u"), want: head{SubmitJob, 3, true}, err: errShort},
		{name: "a response", raw: packet("RES", WorkComplete, "h", "x"), want: head{WorkComplete, 3, false}, args: []string{"h", "x"}},
		{name: "another magic", raw: packet("XXX", GrabJob), err: errMagic},
		{name: "an unknown type", raw: packet("REQ", 43), err: errKind},
		{name: "type 0", raw: packet("REQ", 0), err: errKind},
		{name: "too long", raw: packet("REQ", EchoReq, strings.Repeat("x", 101)), err: errLong},
		{name: "cut in its head", raw: packet("REQ", GrabJob)[:8], err: io.ErrUnexpectedEOF},
		{name: "cut in its body", raw: packet("REQ", EchoReq, "hello")[:14], want: head{EchoReq, 5, true}, err: io.ErrUnexpectedEOF},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := bytes.NewReader(c.raw)
			h, err := readHead(r, 100)
			var args [][]byte
			if err == nil {
				if h != c.want {
					t.Errorf("head: %+v, not %+v", h, c.want)
				}
				var body []byte
				if body, err = readBody(r, h.size, anyStep); err == nil {
					args, err = split(body, requests[h.kind].args)
				}
			}
			var got []string
			for _, a := range args {
				got = append(got, string(a))
			}
			if !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.args) {
				t.Errorf("arguments %q and %v, not %q and %v", got, err, c.args, c.err)
			}
		})
	}
}

// A packet that is announced gets no memory before its bytes come.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	t.Parallel()
	read := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := readBody(strings.NewReader("short"), 64<<20, anyStep); err == nil {
				b.Fatal("a body was read that never came")
			}
		}
	})
	if n := read.AllocedBytesPerOp(); n > 1<<20 {
		t.Errorf("%d bytes were taken for a packet of 64 MiB of which five bytes came", n)
	}
}

func FuzzPackets(f *testing.F) {
	f.Add(packet("REQ", SubmitJob, "f", "u", "w"))
	f.Add(append(packet("REQ", CanDo, "f"), packet("REQ", GrabJobAll)...))
	f.Add([]byte("status\n\x00REQ"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bufio.NewReader(bytes.NewReader(raw))
		for {
			h, err := readHead(r, 1<<20)
			if err != nil {
				return
			}
			body, err := readBody(r, h.size, anyStep)
			if err != nil {
				return
			}
			if len(body) != h.size {
				t.Fatalf("%d bytes, not %d", len(body), h.size)
			}
			args, err := split(body, requests[h.kind].args)
			if err != nil || len(args) == 0 {
				continue
			}
			texts := make([]string, len(args))
			for i, a := range args {
				texts[i] = string(a)
			}
			again := begin(nil, h.kind, texts, -1)
			if !bytes.Equal(again[headLength:], body) {
				t.Fatalf("%q is written as %q", body, again[headLength:])
			}
			last := len(texts) - 1
			tail := append(begin(nil, h.kind, texts[:last], len(texts[last])), texts[last]...)
			if !bytes.Equal(tail, again) {
				t.Fatalf("with a payload behind it %q, else %q", tail, again)
			}
		}
	})
}
