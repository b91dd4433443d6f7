package net

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"jobd/store/storetest/must"
)

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
