package master

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	jobnet "jobd/net"
	"jobd/net/api"
)

// fold must see what strings.EqualFold sees: that is how names are compared elsewhere.
func TestFoldIsEqualFoldButForSpacesAtTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringMatching(`[aAkK\x{212A}sS\x{17F}ßẞ éÉ\t]{0,4}`)
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		want := strings.EqualFold(strings.TrimRight(a, " "), strings.TrimRight(b, " "))
		if got := fold(a) == fold(b); got != want {
			t.Errorf("%q and %q: %v, want %v", a, b, got, want)
		}
	})
}

// askedFor gives handlers that note what they are asked, and answer.
func askedFor(asked *[]string, name string) map[string]jobnet.Handler {
	note := func(answer string) jobnet.Handler {
		return func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			data := strings.Replace(string(request.Data), `,"by":"pipe"`, "", 1)
			*asked = append(*asked, name+" "+request.Type+" "+data)
			return json.RawMessage(answer), nil
		}
	}
	return map[string]jobnet.Handler{
		"run-manual":  note(`{"jobs":{"1":"done by ` + name + `"}}`),
		"send-signal": note(`{"1":true}`),
		"pause":       note(`"ok"`), "continue": note(`"ok"`), "recycle": note(`"ok"`),
	}
}

// A request goes to a worker by a name that its table takes for one of its own, and only then:
// names compare exactly on the wire.
func TestLikeNamesAreServedOnlyWhereTheTableFolds(t *testing.T) {
	t.Parallel()
	const notFound = `"worker serving target 'Reports' not found"`
	type registered struct {
		target string
		folds  bool
	}
	tests := []struct {
		name                  string
		workers               []registered // 0, 1, …
		manual, signal, asked string
	}{
		{
			"nobody's table folds",
			[]registered{{"reports", false}, {"REPORTS", false}},
			`{"errors":{"1":` + notFound + `}}`, `{"errors":{"1":` + notFound + `}}`, ``,
		},
		{
			"one table folds",
			[]registered{{"reports", false}, {"reports ", true}},
			`{"jobs":{"1":"done by 1"}}`, `{"1":true}`,
			`1 run-manual {"ids":[1]}; 1 send-signal {"jobs":{"1":15}}; 1 pause {"targets":["reports "]}; 1 continue {"targets":["reports "]}`,
		},
		{
			"the very name comes first for a job, and what runs elsewhere is reached too",
			[]registered{{"reports", true}, {"Reports", true}},
			`{"jobs":{"1":"done by 1"}}`, `{"1":true}`,
			`0 continue {"targets":["reports"]}; 0 pause {"targets":["reports"]}; 0 send-signal {"jobs":{"1":15}}; ` +
				`1 continue {"targets":["Reports"]}; 1 pause {"targets":["Reports"]}; 1 run-manual {"ids":[1]}; 1 send-signal {"jobs":{"1":15}}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, Config{})
				asked := make([][]string, len(test.workers))
				for i, w := range test.workers {
					name := string(rune('0' + i))
					link := b.join(name, askedFor(&asked[i], name), w.target)
					ask(t, link, "register-worker", api.Registration{Name: name, Targets: []string{w.target}, Folds: w.folds})
				}
				if got := b.do("run-manual", `{"jobs":[{"id":1,"target":"Reports"}]}`); got != test.manual {
					t.Errorf("run-manual: %s", got)
				}
				if got := b.do("send-signal", `{"jobs":[{"id":1,"signal":15,"target":"Reports"}]}`); got != test.signal {
					t.Errorf("send-signal: %s", got)
				}
				for _, typ := range []string{"pause", "continue"} {
					if got := b.do(typ, `{"targets":["Reports"]}`); got != `"ok"` {
						t.Errorf("%s: %s", typ, got)
					}
				}
				synctest.Wait()
				all := slices.Concat(asked...)
				want := strings.Split(test.asked, "; ")
				if test.asked == "" {
					want = nil
				}
				slices.Sort(all)
				slices.Sort(want)
				if !slices.Equal(all, want) {
					t.Errorf("workers were asked\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

// What an agent says of itself reaches the registry; what it does not say is not sent, as by the
// original's workers.
func TestAgentSaysWhoItIs(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	agent := instanceAgent(address, "i", nil)
	agent.config.Folds = func() bool { return true }
	start(t, agent.Run)
	await(t, m, []string{"a"})
	if p := m.registry.all()[0].profile.Load(); p.instance != "i" || !p.folds || p.name != "w" {
		t.Errorf("registered as %+v", p)
	}
	plain, err := json.Marshal(api.Registration{Name: "w", Targets: []string{"a"}})
	if err != nil || string(plain) != `{"name":"w","targets":["a"]}` {
		t.Errorf("%s, %v", plain, err)
	}
	_, err = clientOf(t, address).Request(within(t), "register-worker", map[string]any{"name": "w", "targets": []string{"a"}, "instance": 5})
	if err == nil || err.Error() != "'instance' must be string" {
		t.Errorf("an instance that is no name: %v", err)
	}
}
