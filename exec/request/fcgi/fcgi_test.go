package fcgi

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
)

// asked reads a request as a server does, by the rules of FastCGI and nothing of this package.
func asked(t *testing.T, request []byte) (params []Param, types string) {
	t.Helper()
	var pairs []byte
	for len(request) > 0 {
		head := request[:8]
		length := int(head[4])<<8 | int(head[5])
		if head[0] != 1 || head[2] != 0 || head[3] != 1 || head[6] != 0 {
			t.Fatalf("a record begins by %v", head)
		}
		content := request[8 : 8+length]
		request = request[8+length:]
		types += map[byte]string{1: "begin ", 4: "params ", 5: "stdin "}[head[1]]
		switch {
		case head[1] == 1 && !bytes.Equal(content, []byte{0, 1, 0, 0, 0, 0, 0, 0}):
			t.Errorf("it begins by %v", content)
		case head[1] == 4:
			pairs = append(pairs, content...)
		}
	}
	length := func() (n int) {
		if n = int(pairs[0]); n < 128 {
			pairs = pairs[1:]
			return n
		}
		n = n&127<<24 | int(pairs[1])<<16 | int(pairs[2])<<8 | int(pairs[3])
		pairs = pairs[4:]
		return n
	}
	for len(pairs) > 0 {
		name, value := length(), length()
		params = append(params, Param{string(pairs[:name]), string(pairs[name : name+value])})
		pairs = pairs[name+value:]
	}
	return params, types
}

func TestARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		params []Param
		types  string
	}{
		"nothing": {nil, "begin params stdin "},
		"short":   {[]Param{{"A", "b"}, {"EMPTY", ""}, {"BYTES", "\x00\xff\n"}}, "begin params params stdin "},
		"lengths": {[]Param{
			{strings.Repeat("n", 127), strings.Repeat("v", 127)},
			{strings.Repeat("n", 128), strings.Repeat("v", 128)},
			{"x", strings.Repeat("v", 40_000)},
		}, "begin params params stdin "},
		"more than a record": {[]Param{{"x", strings.Repeat("v", 150_000)}, {"y", "z"}}, "begin params params params params stdin "},
	} {
		params, types := asked(t, Request(c.params))
		if d := cmp.Diff(c.params, params); d != "" || types != c.types {
			t.Errorf("%s is sent as %q: %s", name, types, d)
		}
	}
}

// record is one as a server may send it.
func record(version, of byte, id uint16, content string, padding int) string {
	n := len(content)
	head := []byte{version, of, byte(id >> 8), byte(id), byte(n >> 8), byte(n), byte(padding), 0}
	return string(head) + content + strings.Repeat("p", padding)
}

var ended = "\x00\x00\x00\x00\x00\x00\x00\x00"

func TestAnAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", most)
	answer := record(1, 6, 1, "out", 5) + record(1, 7, 1, "err", 255) + record(1, 6, 1, "", 0) + record(1, 6, 1, long, 1) +
		record(1, 3, 1, "\x00\x00\x01\x07\x02abc", 0)
	for name, from := range map[string]io.Reader{
		"at once": strings.NewReader(answer), "byte by byte": iotest.OneByteReader(strings.NewReader(answer)),
	} {
		r := NewReader(from)
		for i, want := range []Record{
			{Stdout, []byte("out")},
			{Stderr, []byte("err")},
			{Stdout, []byte{}},
			{Stdout, []byte(long)},
			{EndRequest, []byte("\x00\x00\x01\x07\x02abc")},
		} {
			got, err := r.Next()
			if err != nil || got.Type != want.Type || !bytes.Equal(got.Content, want.Content) {
				t.Fatalf("%s: record %d is %d, %.20q, %v", name, i, got.Type, got.Content, err)
			}
			if end, err := got.End(); (err == nil) != (got.Type == EndRequest) || got.Type == EndRequest && end != (End{App: 263, Protocol: 2}) {
				t.Errorf("%s: record %d is the end %+v, %v", name, i, end, err)
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: behind it there is %v", name, err)
		}
	}
}

func TestWhatIsCutIsToldWithWhatCame(t *testing.T) {
	t.Parallel()
	whole := record(1, 6, 1, "out", 2)
	for n := 1; n < len(whole); n++ {
		got, err := NewReader(strings.NewReader(whole[:n])).Next()
		if want := "out"[:min(max(n-8, 0), 3)]; !errors.Is(err, io.ErrUnexpectedEOF) || string(got.Content) != want {
			t.Errorf("of %d bytes it reads %q, %v", n, got.Content, err)
		}
	}
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		record(0, 6, 1, "x", 0):   "a record of version 0",
		record(2, 6, 1, "x", 0):   "a record of version 2",
		record(1, 6, 0, "x", 0):   "a record about request 0",
		record(1, 6, 257, "x", 0): "a record about request 257",
		record(1, 1, 1, ended, 0): "a record of type 1",
		record(1, 11, 1, "x", 0):  "a record of type 11",
		"HTTP/1.1 400 Bad":        "a record of version 72",
	} {
		_, err := NewReader(strings.NewReader(sent)).Next()
		if err == nil || err.Error() != "the answer is not FastCGI: "+want {
			t.Errorf("%q is read as %v, not %s", sent, err, want)
		}
	}
	got := must.Get(NewReader(strings.NewReader(record(1, 3, 1, ended[1:], 1))).Next())(t)
	if end, err := got.End(); err == nil || err.Error() != "the answer is not FastCGI: an end of the request with 7 bytes" {
		t.Errorf("a short end is %+v, %v", end, err)
	}
}

// No input makes the reader panic or take more memory than a record has, and what it reads is what
// was sent.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(record(1, 6, 1, "out", 3) + record(1, 7, 1, "err", 0) + record(1, 3, 1, ended, 0)))
	f.Add([]byte(record(1, 6, 1, "out", 3)[:13]))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := NewReader(bytes.NewReader(sent))
		rest := sent
		for {
			got, err := r.Next()
			if !bytes.Equal(got.Content, rest[min(8, len(rest)):min(8+len(got.Content), len(rest))]) {
				t.Fatalf("%q is read from %q", got.Content, rest)
			}
			if cap(r.content) > 2*(most+255) {
				t.Fatalf("%d bytes are held", cap(r.content))
			}
			if err != nil {
				return
			}
			rest = rest[8+len(got.Content)+int(rest[6]):]
			_, _ = got.End()
		}
	})
}
