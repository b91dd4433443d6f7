package net

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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
			if want := `[1,{"no":4,"data":` + test.want + "}]\x04"; string(frame) != want {
				t.Errorf("%s, want %s", frame, want)
			}
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
