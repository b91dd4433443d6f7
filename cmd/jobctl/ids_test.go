package main

import (
	"encoding/json"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// The ids that tables have and that many a program rounds or refuses.
var farIDs = []string{"-5", "-1", "9007199254740991", "9007199254740993", "9223372036854775807", "-9007199254740993", "-9223372036854775808"}

// onWire is an id as net.Whole writes it.
func onWire(id string) string {
	if len(strings.TrimPrefix(id, "-")) < roundable || id == "9007199254740991" {
		return id
	}
	return `"` + id + `"`
}

func TestEveryIDReachesTheDaemonExactly(t *testing.T) {
	t.Parallel()
	for _, id := range farIDs {
		d := startDaemon(t, "", map[string]any{
			"run-manual":  json.RawMessage(`{"jobs": {"` + id + `": {"result": "ok", "code": 0, "stdout": "out", "stderr": ""}}}`),
			"send-signal": json.RawMessage(`{"` + id + `": true}`),
		})
		jobctl{}.expect(t, d, output{out: "out"}, "run-manual", id)
		jobctl{}.expect(t, d, output{out: "out"}, "run-manual", "--", id)
		jobctl{}.expect(t, d, output{out: "out"}, "--master", "run-manual", "a:"+id)
		if got := (jobctl{}).run(t, "--port", d.port, "send-signal", "TERM", id); got.code != 0 || !strings.Contains(got.out, "\n"+id+" ") {
			t.Errorf("send-signal %s: %+v", id, got)
		}
		if got := (jobctl{}).run(t, "--port", d.port, "--master", "send-signal", "TERM", "a:"+id); got.code != 0 {
			t.Errorf("send-signal a:%s: %+v", id, got)
		}
		want := []string{
			`run-manual {"ids":[` + onWire(id) + `]}`, `run-manual {"ids":[` + onWire(id) + `]}`, `run-manual {"jobs":[{"id":` + onWire(id) + `,"target":"a"}]}`,
			`send-signal {"jobs":{"` + id + `":15}}`, `send-signal {"jobs":[{"id":` + onWire(id) + `,"signal":15,"target":"a"}]}`,
		}
		if got := strings.Join(d.asked(), "\n"); got != strings.Join(want, "\n") {
			t.Errorf("asked\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
}

func TestEveryIDInAJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	for _, id := range farIDs {
		var job int64
		must.Do(t, json.Unmarshal([]byte(id), &job))
		appendAll(t, j, journal.Draft{Job: job, Payload: journal.Ignored{Reason: "reason " + id}})
	}
	must.Do(t, j.Close())
	for _, id := range farIDs {
		for _, args := range []string{"show ID", "show -- ID", "log --job ID", "log --job=ID"} {
			got := jobctl{}.run(t, append([]string{"journal", "--journal", dir}, strings.Fields(strings.ReplaceAll(args, "ID", id))...)...)
			if got.code != 0 || !strings.Contains(got.out, "reason "+id+"\n") || strings.Count(got.out, "reason") != 1 {
				t.Errorf("journal %s: %+v", strings.ReplaceAll(args, "ID", id), got)
			}
		}
		for _, command := range []string{"show", "state", "export", "log"} {
			args := []string{"journal", command, "--journal", dir, "--output=json"}
			if command == "show" {
				args = append(args, id)
			}
			if got := (jobctl{}).run(t, args...); got.code != 0 || !strings.Contains(got.out, `"job":`+onWire(id)+`,`) {
				t.Errorf("journal %s, as JSON: no %s in %+v", command, onWire(id), got)
			}
		}
	}
}

// A worker is asked for an id in the same form, whatever kind of number its JSON decoder makes of it.
func TestAQueryIsNotRounded(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"journal-events": map[string]string{"cursor": "c"}, "journal-next": map[string]any{"items": []any{}}})
	for _, id := range farIDs {
		(jobctl{}).run(t, "--port", d.port, "journal", "show", id)
	}
	all := strings.Join(d.asked(), "\n")
	for _, id := range farIDs {
		if !strings.Contains(all, `"job":`+onWire(id)+`,`) {
			t.Errorf("no %s in\n%s", onWire(id), all)
		}
	}
}

func TestExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":9007199254740993,"b":[1,-9007199254740992,9007199254740991]}`: `{"a":"9007199254740993","b":[1,"-9007199254740992",9007199254740991]}`,
		`"9007199254740993 \" 9007199254740993"`:                            `"9007199254740993 \" 9007199254740993"`,
		`{"a":1.5,"b":9007199254740993.5,"c":1e30,"d":0}`:                   `{"a":1.5,"b":9007199254740993.5,"c":1e30,"d":0}`,
		`18446744073709551615`:                                              `18446744073709551615`,
		`{"a\\":9007199254740993}`:                                          `{"a\\":"9007199254740993"}`,
		``:                                                                  ``,
		`"unended`:                                                          `"unended`,
	} {
		if got := string(exact([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
