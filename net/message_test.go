package net

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// JSON.stringify's output for the same values.
func TestEncodeLikeJavaScript(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data any
		want string
	}{
		{"nothing", nil, `null`},
		{"HTML is not escaped", "<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"line separators are escaped", "a\u2028b\u2029c", `"a\u2028b\u2029c"`},
		{"control characters", "\x00\x04\b\t\n\v\f\r\x1f\x7f", `"\u0000\u0004\b\t\n\u000b\f\r\u001f` + "\x7f\""},
		{"quotes and backslashes", `"\ \u2028 \\u2029`, `"\"\\ \\u2028 \\\\u2029"`},
		{"invalid UTF-8 is replaced", "a\xffb", `"a\ufffdb"`},
		{"the replacement character itself", "\uFFFD", "\"\uFFFD\""},
		{"emoji", "😀", `"😀"`},
		{"invalid UTF-8 in raw JSON", json.RawMessage("\"a\xffb\""), "\"a\uFFFDb\""},
		{"numbers", []float64{1, 1.5, 1e21, 1e-7, 1e20}, `[1,1.5,1e+21,1e-7,100000000000000000000]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			parts, err := encodeResponse(4, test.data)
			frame := bytes.Join(parts, nil)
			if err != nil {
				t.Fatal(err)
			}
			check.Equal(t, string(frame), `[1,{"no":4,"data":`+test.want+"}]\x04", "%s", frame)
		})
	}
}

// What is encoded comes back from parse the same.
func TestMessagesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		no := rapid.Int64Range(-maxSafe, maxSafe).Draw(t, "no")
		text := rapid.String().Draw(t, "text")
		data := rapid.SliceOf(rapid.String()).Draw(t, "data")
		var asked any = data
		if shared, err := Encode(data); err != nil {
			t.Fatal(err)
		} else if rapid.Bool().Draw(t, "shared") {
			asked = shared
		}
		parts, err := encodeRequest(requestBody{No: no, Type: text, Password: text}, asked, "")
		if err != nil {
			t.Fatal(err)
		}
		request := bytes.Join(parts, nil)
		parts, err = encodeResponse(no, data)
		response := bytes.Join(parts, nil)
		if err != nil {
			t.Fatal(err)
		}
		for kind, frame := range map[int][]byte{kindRequest: request, kindResponse: response} {
			m := parseOne(t, frame)
			var back []string
			must.Do(t, json.Unmarshal(m.data, &back))
			if m.kind != kind || m.no != no || !reflect.DeepEqual(append([]string{}, data...), back) {
				t.Fatalf("%q came back as %+v", frame, m)
			}
			if kind == kindRequest && (m.typ != text || m.password != text) {
				t.Fatalf("%q came back as %+v", frame, m)
			}
		}
		if m := parseOne(t, encodeError(no, text, "")); m.no != no || !m.failed || m.failure != text {
			t.Fatalf("error %q came back as %+v", text, m)
		}
	})
}

func parseOne(t *rapid.T, frame []byte) message {
	frames, err := split(bytes.NewReader(frame), len(frame))
	if !errors.Is(err, io.EOF) || len(frames) != 1 {
		t.Fatalf("%q is %d frames, %v", frame, len(frames), err)
	}
	m, err := parse(frames[0])
	if err != nil {
		t.Fatalf("%q: %v", frame, err)
	}
	return m
}

func TestFields(t *testing.T) {
	t.Parallel()
	target := func(r *Reader) any { return r.Text("target") }
	concurrency := func(r *Reader) any { return r.Int("concurrency") }
	flag := func(r *Reader) any { return r.Flag("poll_workers") }
	jobs := func(r *Reader) any {
		n := 0
		r.Each("jobs", func(json.RawMessage) { n++ })
		return n
	}
	tests := []struct {
		name, data string
		read       func(*Reader) any
		want       any
		refusal    string
	}{
		{"no data", ``, target, nil, "missing required field target"},
		{"data a number", `7`, target, nil, "missing required field target"},
		{"data an array", `["target"]`, target, nil, "missing required field target"},
		{"other case", `{"Target":"a"}`, target, nil, "missing required field target"},
		{"target", `{"target":"\u00e4"}`, target, "ä", ""},
		{"target null", `{"target":null}`, target, nil, "'target' must be string"},
		{"target a number", `{"target":1}`, target, nil, "'target' must be string"},
		{"concurrency", `{"concurrency":2.0}`, concurrency, int64(2), ""},
		{"concurrency a string", `{"concurrency":"4"}`, concurrency, nil, "'concurrency' must be integer"},
		{"concurrency a fraction", `{"concurrency":1.5}`, concurrency, nil, "'concurrency' must be integer"},
		{"concurrency infinite", `{"concurrency":1e999}`, concurrency, nil, "'concurrency' must be integer"},
		{"concurrency absent", `{}`, concurrency, nil, "missing required field concurrency"},
		{"flag true", `{"poll_workers":true}`, flag, true, ""},
		{"flag 1", `{"poll_workers":1}`, flag, true, ""},
		{"flag 0", `{"poll_workers":0.0}`, flag, false, ""},
		{"flag empty", `{"poll_workers":""}`, flag, false, ""},
		{"flag text", `{"poll_workers":"no"}`, flag, true, ""},
		{"flag null", `{"poll_workers":null}`, flag, false, ""},
		{"flag absent", `null`, flag, false, ""},
		{"jobs", `{"jobs":[{},1]}`, jobs, 2, ""},
		{"jobs an object", `{"jobs":{}}`, jobs, nil, "jobs must be array"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			from := &Reader{Fields: FieldsOf(json.RawMessage(test.data))}
			got, err := test.read(from), from.Err
			if test.refusal != "" {
				if text, whole := publicText(errors.Join(err)); text != test.refusal || !whole {
					t.Errorf("error %v, want %s", err, test.refusal)
				}
				return
			}
			if err != nil || !cmp.Equal(got, test.want) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`[0,{"no":1,"type":"run-manual","data":{"ids":[1,2]},"password":"x"}]`, `[1,{"no":1,"data":"ok"}]`, `[1,{"no":0,"error":"e"}]`,
		`[2]`, `[3]`, `[]`, `[[1,[null]],{}]`, `{"no":1}`, `null`, `-1e999`, `"\ud800"`, "\"\xff\"", `[0,{"no":1.0,"type":"\u0000"}]`, `[0,{no:1}]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := parse(frame)
		switch {
		case errors.Is(err, errNotJSON):
			if json.Valid(frame) {
				t.Fatalf("%q is JSON", frame)
			}
		case err != nil:
			answer := encodeError(0, err.Error(), "")
			if !utf8.Valid(answer) || bytes.IndexByte(answer, endOfFrame) != len(answer)-1 {
				t.Fatalf("%q is answered with %q", frame, answer)
			}
		case m.data != nil && !json.Valid(m.data):
			t.Fatalf("%q has the data %q", frame, m.data)
		}
	})
}

func BenchmarkParseRequest(b *testing.B) {
	frame := []byte(`[0,{"no":35966,"type":"run-manual","data":{"ids":[900142,900242]}}]`)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(parse(frame))(b)
	}
}

func BenchmarkEncodeResponse(b *testing.B) {
	data := map[string]any{"jobs": map[string]any{"900142": map[string]any{"result": "ok", "stdout": "out 900142\n"}}}
	b.ReportAllocs()
	for b.Loop() {
		must.Get(encodeResponse(35966, data))(b)
	}
}

func BenchmarkSplitter(b *testing.B) {
	stream := bytes.Repeat([]byte("[0,{\"no\":35966,\"type\":\"poll\",\"data\":{\"targets\":[\"a\"]}}]\x04"), 1000)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if frames, _ := split(bytes.NewReader(stream), 1<<20); len(frames) != 1000 {
			b.Fatal(len(frames))
		}
	}
}

// exchange is one line of testdata/conformance: what was sent to the original and what it answered.
type exchange struct {
	Name    string
	Send    []string
	Receive []json.RawMessage
	Closed  bool
}

func recorded(t *testing.T, file string) []exchange {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join("..", "testdata", "conformance", file)))(t)
	var exchanges []exchange
	for line := range bytes.Lines(content) {
		var e exchange
		must.Do(t, json.Unmarshal(line, &e))
		exchanges = append(exchanges, e)
	}
	return exchanges
}

// The recorded exchanges that concern the protocol alone; the daemons' own tests replay all of
// them.
func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	handlers := map[string]Handler{"poll": constant("ok", nil), "pause": constant(nil, Refusal("invalid target 'zzz'"))}
	ofPlain := []string{
		"ping", "ping with extra data", "unknown type", "missing no", "missing type", "no is a string", "no is a float", "no is zero",
		"data is a bool", "password is a number", "request without body", "json object instead of array", "json number", "json string", "json null",
		"empty array", "unknown message type", "broken json then ping", "empty frame then ping", "unexpected response then ping", "poll all",
	}
	files := []struct {
		file   string
		config ServerConfig
		chosen []string // nil: all
	}{
		{"password.jsonl", ServerConfig{Handlers: handlers, Password: "s3cret"}, nil},
		{"localhost.jsonl", ServerConfig{Handlers: handlers, Password: "s3cret", AlwaysAllowLocalhost: true}, nil},
		{"plain.jsonl", ServerConfig{Handlers: handlers}, ofPlain},
	}
	for _, file := range files {
		replayed := 0
		for _, e := range recorded(t, file.file) {
			if file.chosen != nil && !slices.Contains(file.chosen, e.Name) {
				continue
			}
			replayed++
			t.Run(file.file+"/"+e.Name, func(t *testing.T) {
				t.Parallel()
				address, _ := serve(t, file.config)
				replay(t, dial(t, address), e)
			})
		}
		if replayed == 0 || file.chosen != nil && replayed != len(file.chosen) {
			t.Errorf("%s: %d exchanges replayed", file.file, replayed)
		}
	}
}

func replay(t *testing.T, peer *wire, e exchange) {
	t.Helper()
	peer.send(e.Send...)
	for _, want := range e.Receive {
		got := peer.receive()
		must.DeepEqual(t, decoded(t, []byte(got)), decoded(t, want), "received %s, want %s", got, want)
	}
	if e.Closed {
		peer.expectEnd()
	}
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, &value), "%s", text)
	return value
}

// Whatever a peer says first that has no credential, TLS or not: no request of it is run, it is told the end,
// and nothing of it stays.
func FuzzHandshake(f *testing.F) {
	authority, folder := certtest.New(f), f.TempDir()
	file, key := authority.Issue(f, folder, "127.0.0.1")
	principals := folder + "/principals"
	must.Do(f, os.WriteFile(principals, []byte("ann admin * cert:ann.example\nshop submit * uid:54321\n"), 0o600))
	keeper := must.Get(principal.Open(principals, slog.New(slog.DiscardHandler)))(f)
	config := must.Get(cert.Server(cert.Files{Cert: file, Key: key, ClientCA: authority.File}, slog.New(slog.DiscardHandler)))(f)
	var ran atomic.Bool
	server := NewServer(ServerConfig{
		Principals: keeper, Password: aLongPassword, TLS: config,
		Handlers: map[string]Handler{"status": func(context.Context, *Link, Request) (any, error) {
			ran.Store(true)
			return nil, nil
		}},
	})
	f.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ended)
	})
	for _, seed := range []string{
		"", "\x16", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", `[0,{"no":1,"type":"status"}]` + "\x04", "[2]\x04[2]\x04",
		`[0,{"no":1,"type":"status","password":"jobd_ann_0000000000000000000000000000000000000000000000000"}]` + "\x04",
		`[0,{"no":1,"type":"status","by":{"name":"ann","scope":"admin"}}]` + "\x04", "GET / HTTP/1.1\r\n", " \n[3]\x04", "\x16[0,{}]\x04",
		helloOf(f),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		server.accept(ours)
		_ = theirs.SetDeadline(time.Now().Add(20 * time.Millisecond)) // then it hangs up
		go func() { _, _ = theirs.Write(said) }()
		answer, _ := io.ReadAll(theirs)
		_ = theirs.Close()
		if ran.Load() || bytes.Contains(answer, []byte(`"data"`)) {
			t.Fatalf("a request was run: %q", answer)
		}
	})
}

// helloOf is how TLS begins.
func helloOf(f *testing.F) string {
	f.Helper()
	client, peer := net.Pipe()
	go func() { _, _ = Secure(context.Background(), client, of(cert.Trust{Name: "server.example"})) }()
	buf := make([]byte, 4096)
	n := must.Get(peer.Read(buf))(f)
	_ = peer.Close()
	return string(buf[:n])
}
