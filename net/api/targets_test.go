package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

func TestTargetsThatClientsSend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		data          string
		want          []string
		worker        string // its refusal
		master        string
		anyMasterSays string // where none stands for all
	}{
		{`{"targets":["a","b/c:d"]}`, []string{"a", "b/c:d"}, "", "", ""},
		{`{}`, nil, "", "targets must be array", ""},
		{``, nil, "", "targets must be array", ""},
		{`7`, nil, "", "targets must be array", ""},
		{`{"targets":null}`, nil, "targets must be array", "targets must be array", "targets must be array"},
		{`{"targets":"a"}`, nil, "targets must be array", "targets must be array", "targets must be array"},
		{`{"targets":{"0":"a"}}`, nil, "targets must be array", "targets must be array", "targets must be array"},
		{`{"targets":[]}`, nil, "targets are empty", "targets are empty", "targets are empty"},
		{`{"targets":["a",1]}`, nil, one("number"), one("number"), one("number")},
		{`{"targets":[null]}`, nil, one("object"), one("object"), one("object")},
		{`{"targets":[["a"]]}`, nil, one("object"), one("object"), one("object")},
		{`{"targets":[true]}`, nil, one("boolean"), one("boolean"), one("boolean")},
		{
			`{"targets":["` + strings.Repeat("x", 1025) + `"]}`, nil, "a target is too long: at most 1024 bytes are allowed",
			"a target is too long: at most 255 bytes are allowed", "a target is too long: at most 255 bytes are allowed",
		},
		{
			`{"targets":[` + strings.Repeat(`"x",`, 10_000) + `"x"]}`, nil, "too many targets: at most 10000 are allowed",
			"too many targets: at most 10000 are allowed", "too many targets: at most 10000 are allowed",
		},
	}
	for _, test := range tests {
		for name, read := range map[string]struct {
			with Request[Targets, Done]
			want string
		}{"worker": {Poll, test.worker}, "master": {Poke, test.master}, "master, any": {MasterPause, test.anyMasterSays}} {
			got, err := read.with.Read(anybody, jobnet.FieldsOf(json.RawMessage(test.data)))
			switch {
			case read.want != "" && (err == nil || err.Error() != read.want):
				t.Errorf("%s: %.60s: error %v, want %s", name, test.data, err, read.want)
			case read.want == "" && (err != nil || !slices.Equal(got.Targets, test.want)):
				t.Errorf("%s: %.60s: %v, %v; want %v", name, test.data, got, err, test.want)
			}
			if code := jobnet.CodeOf(err); err != nil && code != jobnet.CodeInvalid && code != jobnet.CodeLimit {
				t.Errorf("%s: %.60s: %v has the code %s", name, test.data, err, code)
			}
		}
	}
}

func one(kind string) string { return "all targets must be strings, " + kind + " given" }

// What one side writes the other reads, and an answer of the original is one too.
func TestAnswersRoundTrip(t *testing.T) {
	t.Parallel()
	two := 2
	for want, done := range map[string]Done{
		`"ok"`: {}, `{"result":"ok","unserved":["x"],"workers":2}`: {Unserved: []string{"x"}, Workers: &two},
		`{"result":"ok","unserved":[],"workers":2}`: {Workers: &two},
	} {
		text, back := roundTrip(t, done)
		if text != want || back.Result != "ok" || (back.Workers == nil) != (done.Workers == nil) || !slices.Equal(back.Unserved, done.Unserved) {
			t.Errorf("%s, want %s; read as %+v", text, want, back)
		}
	}
	for want, delivered := range map[string]Delivered{
		`{}`: {}, `{"5":true,"x":false}`: {Jobs: map[string]bool{"5": true, "x": false}},
		`{"5":false,"errors":{"5":"no"}}`: {Jobs: map[string]bool{"5": false}, Errors: map[string]string{"5": "no"}},
	} {
		text, back := roundTrip(t, delivered)
		if text != want || len(back.Jobs) != len(delivered.Jobs) || back.Jobs["5"] != delivered.Jobs["5"] || back.Errors["5"] != delivered.Errors["5"] {
			t.Errorf("%s, want %s; read as %+v", text, want, back)
		}
	}
	for want, restarted := range map[string]Restarted{`"ok"`: {}, `{"pid":7,"address":"a:1"}`: {&Successor{7, "a:1"}}} {
		text, back := roundTrip(t, restarted)
		if text != want || (back.Next == nil) != (restarted.Next == nil) || back.Next != nil && *back.Next != *restarted.Next {
			t.Errorf("%s, want %s; read as %+v", text, want, back)
		}
	}
}

func roundTrip[A any](t *testing.T, answer A) (text string, back A) {
	t.Helper()
	encoded := must.Get(json.Marshal(answer))(t)
	must.Do(t, json.Unmarshal(encoded, &back))
	return string(encoded), back
}

// The name of a target that is added stands in terminals and logs.
func TestTargetsThatAreAddedHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"\x1b[2J", "a\nb", "a\tb", "\x00", "\u0085"} {
		text := must.Get(json.Marshal(map[string]any{"target": name, "concurrency": 1}))(t)
		if _, err := AddTarget.Read(anybody, jobnet.FieldsOf(text)); err == nil || jobnet.CodeOf(err) != jobnet.CodeInvalid || strings.ContainsAny(err.Error(), "\x1b\n\t\x00\u0085") {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := SetConcurrency.Read(anybody, jobnet.FieldsOf(text)); err != nil {
			t.Errorf("%q, which is there already: %v", name, err)
		}
	}
}
