package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// anyInteger stands in a recording for a number that differs from run to run.
const anyInteger = "<int>"

// differs tells where got does not fit the recorded want, "" where it does:
// objects may have more keys than were recorded, arrays may not be longer.
func differs(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("want an object, got %v", got)
		}
		for key, value := range want {
			found, ok := object[key]
			if !ok {
				return fmt.Sprintf("key %q is missing", key)
			}
			if d := differs(value, found); d != "" {
				return key + ": " + d
			}
		}
		return ""
	case []any:
		array, ok := got.([]any)
		if !ok || len(array) != len(want) {
			return fmt.Sprintf("want %v, got %v", want, got)
		}
		for i := range want {
			if d := differs(want[i], array[i]); d != "" {
				return fmt.Sprintf("[%d]: %s", i, d)
			}
		}
		return ""
	case string:
		if number, ok := got.(float64); ok && want == anyInteger && number == float64(int64(number)) {
			return ""
		}
	}
	if !cmp.Equal(want, got) {
		return fmt.Sprintf("want %v, got %v", want, got)
	}
	return ""
}

// expectation is what must still be received. Order matters only among
// frames of one request number.
type expectation struct{ frames []any }

// take strikes a received frame off, or tells what is wrong with it.
func (e *expectation) take(frame string) error {
	var got any
	if err := json.Unmarshal([]byte(frame), &got); err != nil {
		return fmt.Errorf("received %.200q: %w", frame, err)
	}
	for i, want := range e.frames {
		if conversation(want) != conversation(got) {
			continue
		}
		if d := differs(want, got); d != "" {
			return fmt.Errorf("received %.500s: %s", frame, d)
		}
		e.frames = slices.Delete(e.frames, i, i+1)
		return nil
	}
	return fmt.Errorf("received %.500s, which was not recorded", frame)
}

// receive takes frames until all that is expected has come.
func (e *expectation) receive(t *testing.T, wire *harness.Wire) {
	t.Helper()
	for len(e.frames) > 0 {
		frame, err := wire.Receive(harness.Patience)
		if err != nil {
			t.Fatalf("%v; still expected: %v", err, e.frames)
		}
		must.Do(t, e.take(frame))
	}
}

// conversation is what a frame belongs to: its kind and, of a response, its number.
func conversation(frame any) string {
	parts, ok := frame.([]any)
	if !ok || len(parts) == 0 {
		return "malformed"
	}
	if parts[0] != float64(1) || len(parts) < 2 {
		return fmt.Sprint(parts[0])
	}
	body, _ := parts[1].(map[string]any)
	return fmt.Sprintf("1 %v", body["no"])
}

func TestMatching(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, want, got string
		wrong           string // part of the difference; "" where it fits
	}{
		{name: "same", want: `[1,{"no":1,"data":"ok"}]`, got: `[1,{"no":1,"data":"ok"}]`},
		{name: "more keys", want: `[1,{"no":1,"data":{"a":1}}]`, got: `[1,{"no":1,"data":{"a":1,"b":2}}]`},
		{name: "any integer", want: `[1,{"no":1,"data":"<int>"}]`, got: `[1,{"no":1,"data":7}]`},
		{name: "a fraction is no integer", want: `[1,{"no":1,"data":"<int>"}]`, got: `[1,{"no":1,"data":7.5}]`, wrong: "want <int>"},
		{name: "a word is no integer", want: `[1,{"no":1,"data":"<int>"}]`, got: `[1,{"no":1,"data":"7"}]`, wrong: "want <int>"},
		{name: "key missing", want: `[1,{"no":1,"data":{"a":null}}]`, got: `[1,{"no":1,"data":{}}]`, wrong: `"a" is missing`},
		{name: "longer array", want: `[1,{"no":1,"data":[1]}]`, got: `[1,{"no":1,"data":[1,2]}]`, wrong: "want [1]"},
		{name: "other number", want: `[1,{"no":1,"data":"ok"}]`, got: `[1,{"no":2,"data":"ok"}]`, wrong: "not recorded"},
		{name: "error instead of data", want: `[1,{"no":1,"data":"ok"}]`, got: `[1,{"no":1,"error":"no"}]`, wrong: `"data" is missing`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var want any
			must.Do(t, json.Unmarshal([]byte(c.want), &want))
			err := (&expectation{frames: []any{want}}).take(c.got)
			switch {
			case c.wrong == "" && err != nil:
				t.Errorf("does not fit: %v", err)
			case c.wrong != "" && err == nil:
				t.Error("fits, but must not")
			case c.wrong != "" && !strings.Contains(err.Error(), c.wrong):
				t.Errorf("got %q, want it to tell of %q", err, c.wrong)
			}
		})
	}
}
