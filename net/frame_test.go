package net

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// split reads all frames of a stream.
func split(stream io.Reader, limit int) (frames [][]byte, err error) {
	var s splitter
	for {
		frame, err := s.next(limit)
		if err != nil {
			return frames, err
		}
		if frame != nil {
			frames = append(frames, bytes.Clone(frame))
			continue
		}
		if err := s.fill(stream); err != nil {
			return frames, err
		}
	}
}

// pieces is a reader that gives a stream in pieces of the given sizes, over and over.
type pieces struct {
	stream []byte
	sizes  []int
	turn   int
}

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.stream) == 0 {
		return 0, io.EOF
	}
	n := min(p.sizes[p.turn%len(p.sizes)], len(p.stream), len(into))
	p.turn++
	copy(into, p.stream[:n])
	p.stream = p.stream[n:]
	return n, nil
}

// However a stream is cut into packets, the same frames come out.
func TestFramesSurviveAnyPackets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		frames := rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange(5, 255), 0, 3000)).Draw(t, "frames")
		for _, frame := range frames {
			stream = append(append(stream, frame...), endOfFrame)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 10).Draw(t, "sizes")
		got, err := split(&pieces{stream: stream, sizes: sizes}, 3000)
		must.ErrorIs(t, err, io.EOF, "ended with")
		must.Equal(t, len(got), len(frames), "frames")
		for i := range got {
			if !bytes.Equal(got[i], frames[i]) {
				t.Fatalf("frame %d is %q, want %q", i, got[i], frames[i])
			}
		}
	})
}

func TestFrameLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stream []byte
		frames int
		want   error
	}{
		{"at the limit", append(bytes.Repeat([]byte("x"), 1000), endOfFrame), 1, io.EOF},
		{"one above", append(bytes.Repeat([]byte("x"), 1001), endOfFrame), 0, errFrameTooLong},
		{"without an end", bytes.Repeat([]byte("x"), 1<<20), 0, errFrameTooLong},
		{"the second one", append([]byte{'x', endOfFrame}, bytes.Repeat([]byte("x"), 2000)...), 1, errFrameTooLong},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			frames, err := split(iotest.HalfReader(bytes.NewReader(test.stream)), 1000)
			if len(frames) != test.frames || !errors.Is(err, test.want) {
				t.Errorf("%d frames and %v, want %d and %v", len(frames), err, test.frames, test.want)
			}
		})
	}
}

// Pitfall 34: a link that said something long and is idle now holds little memory, and never more
// than twice the limit.
func TestPitfall34BufferStaysBoundedAndShrinks(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	var s splitter
	stream := bytes.NewReader(append(bytes.Repeat([]byte("x"), limit), endOfFrame))
	for {
		frame := must.Get(s.next(limit))(t)
		if cap(s.buf) > 2*limit+smallBuffer {
			t.Fatalf("the buffer has %d bytes", cap(s.buf))
		}
		if frame != nil {
			break
		}
		must.Do(t, s.fill(stream))
	}
	_ = s.fill(stream)
	check.Equal(t, cap(s.buf), smallBuffer, "the idle buffer has … bytes")
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("[2]\x04[3]\x04"), 3)
	f.Add([]byte("\x04\x04"), 1)
	f.Add([]byte(`[0,{"no":1,"type":"status"}]`), 7)
	f.Add(bytes.Repeat([]byte("x"), 600), 600)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		const limit = 1024
		got, err := split(&pieces{stream: bytes.Clone(stream), sizes: []int{max(1, size)}}, limit)
		want := bytes.Split(stream, []byte{endOfFrame})
		want = want[:len(want)-1] // what has no end is no frame
		if err == io.EOF && len(got) != len(want) || len(got) > len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) || len(got[i]) > limit {
				t.Fatalf("frame %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}

// Data that goes to many peers is made JSON once, however many they are.
func TestEncodedDataIsShared(t *testing.T) {
	t.Parallel()
	made := 0
	data := must.Get(Encode(counted{&made, "é"}))(t)
	var results []<-chan string
	for range 3 {
		l, peer := scripted(t, LinkConfig{Password: `s3"cret`})
		results = append(results, request(l, "a", data))
		sent := peer.receiveRequest()
		if string(sent.Data) != "\"é\"" || sent.Type != "a" || sent.Password == nil || *sent.Password != `s3"cret` {
			t.Errorf("sent %+v", sent)
		}
		peer.send(fmt.Sprintf(`[1,{"no":%d,"data":1}]`, sent.No))
	}
	for _, result := range results {
		check.Equal(t, <-result, "1 <nil>", "answer")
	}
	check.Equal(t, made, 1, "the data was encoded … times")
}

func TestEncodedPartsAreNotCopied(t *testing.T) {
	t.Parallel()
	data := must.Get(Encode(strings.Repeat("x", 1<<20)))(t)
	parts, err := encodeRequest(requestBody{No: 1, Type: "a"}, data, "")
	if err != nil || len(parts) != 3 || unsafe.SliceData(parts[1]) != unsafe.SliceData(data.text) {
		t.Errorf("%d parts, error %v: the data was copied", len(parts), err)
	}
	for _, empty := range []any{nil, Encoded{}} {
		parts, err := encodeRequest(requestBody{No: 1, Type: "a"}, empty, "")
		if err != nil || len(parts) != 1 || string(parts[0]) != `[0,{"no":1,"type":"a"}]`+"\x04" {
			t.Errorf("no data: %q, %v", parts, err)
		}
	}
	if _, err := Encode(make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
}

// counted counts how often it is made JSON.
type counted struct {
	times *int
	text  string
}

func (c counted) MarshalJSON() ([]byte, error) {
	*c.times++
	return json.Marshal(c.text)
}

// A peer that asks for codes gets one with each error that answers a request; one that does not gets
// what it always got.
func TestErrorsBearCodesForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Password: "s3cret", AlwaysAllowLocalhost: true, Handlers: map[string]Handler{
		"refuse":  constant(nil, Refusal("no")),
		"invalid": constant(nil, fmt.Errorf("read: %w", Refusal("bad").With(CodeInvalid))),
		"broken":  constant(nil, errors.New("disk")),
	}})
	peer := dial(t, address)
	for typ, want := range map[string]string{
		"refuse": `"error":"no","code":"refused"`, "invalid": `"error":"bad","code":"invalid-data"`,
		"broken": `"error":"internal error","code":"internal"`, "nope": `"error":"unknown request type: 'nope'","code":"unknown-request"`,
	} {
		peer.send(`[0,{"no":1,"type":"` + typ + `"},"codes"]`)
		peer.expect(`[1,{"no":1,` + want + `}]`)
	}
	for _, further := range []string{`,"code"`, `,["codes"]`, `,null,"codes"`, ``} {
		peer.send(`[0,{"no":1,"type":"invalid"}` + further + `]`)
		peer.expect(`[1,{"no":1,"error":"bad"}]`)
	}
}

func TestLinkKnowsErrorsByCode(t *testing.T) {
	t.Parallel()
	l, peer := scripted(t, LinkConfig{Codes: true})
	for answer, want := range map[string]Code{
		`"error":"x","code":"over-limit"`: CodeLimit, `"error":"x","code":"of the future"`: "of the future",
		`"error":"x"`: CodeRefused, `"error":"x","code":7`: CodeRefused,
		`"error":"invalid password"`: CodePassword, `"error":"unknown request type: 'a'"`: CodeUnknown,
		`"error":"shutting down"`: CodeStopping, `"error":"internal error"`: CodeInternal,
	} {
		failed := make(chan error, 1)
		go func() {
			_, err := l.Request(t.Context(), "a", nil)
			failed <- err
		}()
		sent := peer.receiveRequest()
		peer.send(fmt.Sprintf(`[1,{"no":%d,%s}]`, sent.No, answer))
		if err := <-failed; CodeOf(err) != want {
			t.Errorf("%s: %v has the code %s, want %s", answer, err, CodeOf(err), want)
		}
	}
	check.Equal(t, CodeOf(errors.New("anything else")), CodeInternal, "an error of no peer has the code")
}

func TestRequestForCodesIsAFurtherItem(t *testing.T) {
	t.Parallel()
	for _, data := range []any{nil, 5, Encoded{[]byte("5")}} {
		parts := must.Get(encodeRequest(requestBody{No: 1, Type: "a"}, data, ","+wantsCodes))(t)
		frame := ""
		for _, part := range parts {
			frame += string(part)
		}
		want := `[0,{"no":1,"type":"a","data":5},"codes"]` + "\x04"
		if data == nil {
			want = `[0,{"no":1,"type":"a"},"codes"]` + "\x04"
		}
		check.Equal(t, frame, want)
	}
}

// anyJSON draws a value of so many levels.
func anyJSON(t *rapid.T, levels int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if levels == 0 {
		kind = rapid.IntRange(0, 3).Draw(t, "leaf")
	}
	switch kind {
	case 0:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case 1:
		return rapid.String().Draw(t, "text")
	case 2:
		return rapid.Bool().Draw(t, "flag")
	case 3:
		return nil
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			list = append(list, anyJSON(t, levels-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[rapid.String().Draw(t, "name")] = anyJSON(t, levels-1)
	}
	return object
}

// The lists and objects are taken apart as encoding/json does.
func TestItemsAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := anyJSON(t, 4)
		text := must.Get(json.Marshal(value))(t)
		if rapid.Bool().Draw(t, "with space") {
			var spaced bytes.Buffer
			must.Do(t, json.Indent(&spaced, text, " ", "\t"))
			text = spaced.Bytes()
		}
		var want Fields
		_ = json.Unmarshal(text, &want)
		if got := FieldsOf(text); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("the members of %s are %s, want %s", text, got, want)
		}
		var list []json.RawMessage
		_ = json.Unmarshal(text, &list)
		got := []json.RawMessage{}
		from := &Reader{Fields: Fields{"x": text}}
		from.Each("x", func(item json.RawMessage) { got = append(got, item) })
		if from.Err == nil && !reflect.DeepEqual(got, append([]json.RawMessage{}, list...)) {
			t.Fatalf("the items of %s are %s, want %s", text, got, list)
		}
	})
}

// A request may not be made of too much, whatever its length.
func TestShapesAreBounded(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{"ok": constant("ok", nil)}})
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	list := func(items int) string { return "[0" + strings.Repeat(",0", items-1) + "]" }
	const ok = `[1,{"no":1,"data":"ok"}]`
	for name, test := range map[string]struct{ data, want string }{
		"deep":             {nested(9000), ok},
		"too deep":         {nested(11000), `[3]`}, // which is no JSON to encoding/json
		"brackets in text": {`"` + strings.Repeat(`[{\"`, 1000) + `"`, ok},
		"long":             {list(mostValues), ok},
		"too long":         {list(mostValues + 1), `[1,{"no":1,"error":"too many values: at most 500000 are allowed in a message"}]`},
		"too many in all":  {"[" + strings.Repeat(list(90_000)+",", 6) + "0]", `[1,{"no":1,"error":"too many values: at most 500000 are allowed in a message"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			peer.send(fmt.Sprintf(`[0,{"no":1,"type":"ok","data":%s}]`, test.data), `[2]`)
			if got := peer.receive(); got != test.want && got != `[3]` { // a pong may come before the answer
				t.Errorf("answer %.200s", got)
			} else if got == `[3]` && test.want != got {
				peer.expect(test.want)
			}
		})
	}
}

// A value that is no message is not taken apart to be told.
func TestLongNonsenseIsToldInPart(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{"[[0" + strings.Repeat(",0", 1<<20) + "]]", `"` + strings.Repeat("x", 1<<20) + `"`} {
		if _, err := parse([]byte(frame)); err == nil || len(err.Error()) > 1000 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	}
}

// Regression: every request that waited for its turn had a goroutine and its memory; 16 links made
// 14,000 of them, and everybody waited. A link is not read on while a request waits for its turn.
func TestRequestsInLineAreNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		peer := accepted(t, ServerConfig{Handlers: map[string]Handler{
			"wait": func(context.Context, *Link, Request) (any, error) { <-release; return "ok", nil },
		}})
		_ = peer.SetDeadline(time.Time{})
		const requests = 20
		sent := make(chan int, requests)
		go func() {
			for no := range requests {
				peer.send(fmt.Sprintf(`[0,{"no":%d,"type":"wait"}]`, no))
				sent <- no
			}
		}()
		synctest.Wait()
		check.Equal(t, len(sent), 2, "requests are read while the first is served")
		close(release)
		for no := range requests {
			peer.expect(fmt.Sprintf(`[1,{"no":%d,"data":"ok"}]`, no)) // in turn
		}
	})
}

func TestWholeKeepsEveryNumber(t *testing.T) {
	t.Parallel()
	for number, want := range map[Whole]string{
		0: `0`, -5: `-5`,
		1<<53 - 1:     `9007199254740991`,
		1 << 53:       `"9007199254740992"`,
		-1 << 53:      `"-9007199254740992"`,
		math.MaxInt64: `"9223372036854775807"`,
		math.MinInt64: `"-9223372036854775808"`,
	} {
		encoded, err := json.Marshal(number)
		if err != nil || string(encoded) != want {
			t.Errorf("%d is %s, %v; want %s", int64(number), encoded, err, want)
		}
		var got Whole
		if err := json.Unmarshal(encoded, &got); err != nil || got != number {
			t.Errorf("%s is read as %d, %v", encoded, int64(got), err)
		}
	}
}

func TestWholeRefusesWhatIsNotExact(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`9007199254740993`, `9007199254740992`, `1.5`, `"5"`, `"09007199254740993"`, `"9223372036854775808"`, `"x"`, `""`, `null`, `[1]`, `true`,
	} {
		if got, err := ParseWhole(json.RawMessage(text)); err == nil {
			t.Errorf("%s is read as %d, want an error", text, int64(got))
		}
	}
}
