package page

import (
	"flag"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/journal"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Views are made beside the requests that net/http guards, too: one that panics is told of, and ends nothing else.
func TestAViewThatPanics(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	p := &Page{Config: Config{Log: slog.New(slog.NewTextHandler(&told, nil))}}
	odd := &aScreen{template: "odd.html", view: func(*look) (any, error) { panic("what a peer has told") }}
	if _, err := p.shown(&look{page: p}, odd); err != errBroken {
		t.Errorf("%v", err)
	}
	if said := told.String(); !strings.Contains(said, "what a peer has told") || !strings.Contains(said, "page_test.go") {
		t.Errorf("the log does not say where: %s", said)
	}
}

// A job's attempts stand beside each other as long as they took; one that fills the picture needs none.
func TestPictureOfAttempts(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	runs := func(payloads ...journal.Payload) (all []*operator.Run) {
		for i, payload := range payloads {
			if _, claims := payload.(journal.Accepted); claims {
				all = append(all, &operator.Run{})
			}
			r := all[len(all)-1]
			var e operator.StoryEvent
			e.Item.Time, e.Item.Payload = begin.Add(time.Duration(i)*time.Second), payload
			r.Events = append(r.Events, e)
			if done, ends := payload.(journal.Done); ends {
				r.Done = &done
			}
		}
		return all
	}
	claimed, starts, ok, fail := journal.Accepted{}, journal.Running{}, journal.Done{Result: "ok"}, journal.Done{Result: "fail"}
	for _, c := range []struct {
		name string
		runs []*operator.Run
		now  int // seconds after the begin
		want string
	}{
		{"nothing known", nil, 9, ""},
		{"one that waited, then ran", runs(claimed, starts, ok), 9, "waits 0-500, ok 500-1000"},
		{"one that runs", runs(claimed, starts), 4, "waits 0-250, runs 250-1000"},
		{"it waits only", runs(claimed), 4, ""},
		{
			"failed, and again", runs(claimed, starts, fail, claimed, starts, ok), 9,
			"waits 0-200, failed 200-400, waits 600-800, ok 800-1000",
		},
		{"a crash between", runs(claimed, starts, claimed, starts, ok), 9, "waits 0-250, waits 500-750, ok 750-1000"},
	} {
		var got []string
		for _, bar := range pictureOf(c.runs, begin.Add(time.Duration(c.now)*time.Second)).Bars {
			var x, w float64
			fmt.Sscan(bar.X, &x)
			fmt.Sscan(bar.W, &w)
			got = append(got, fmt.Sprintf("%s %.0f-%.0f", bar.Class, x, x+w))
		}
		check.Equal(t, strings.Join(got, ", "), c.want, "%s", c.name)
	}
}

func TestWhatJobsWriteIsColouredAndHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]template.HTML{
		"plain & <b>":                           "plain &amp; &lt;b&gt;",
		"\x1b[31mred\x1b[0m not":                `<span class="f1">red</span> not`,
		"\x1b[1;32mboth\x1b[22m green\x1b[39m.": `<span class="f2 a1">both</span><span class="f2"> green</span>.`,
		"\x1b[38;5;200mmany\x1b[48;2;1;2;3m of": "many of",
		"\x1b[38:5:1;4mx":                       `<span class="a4">x</span>`,
		"10%\r50%\r100%\nend":                   "100%\nend",
		"line\r\nnext":                          "line\nnext",
		"a\tb":                                  "a\tb",
		"\x1b]0;title\a<i>":                     "&lt;i&gt;",
		"\x1b]8;;http://x/\x1b\\link\x1b]8;;\a": "link",
		"\x1b[2Jcleared\x1b[10;10Hmoved":        "clearedmoved",
		"\x1b[31":                               "",
		"\x1b":                                  "",
		"\x1b[3\n1mx":                           "\n1mx",
		"\x1b(Bx":                               "Bx",
		"bell\a nul\x00 rtl\u202e":              `bell\x07 nul\x00 rtl\u202e`,
		"\xff\xfe":                              `\xff\xfe`,
		"\x1b[\"><script>m":                     `<span`,
	} {
		got := coloured(text)
		if want == "<span" { // whatever it is, it is no markup
			if strings.Contains(string(got), "<script") {
				t.Errorf("%q: %s", text, got)
			}
			continue
		}
		check.Equal(t, got, want, "%q", text)
	}
}

func TestTheEndOfATextBeginsWithALine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		most int
		want string
		cut  bool
	}{
		{"short", 10, "short", false},
		{"one\ntwo\nthree", 8, "three", true},
		{"ääää", 3, "ä", true},
		{"noline", 3, "ine", true},
		{"ends\n", 3, "ds\n", true},
	} {
		if got, cut := tail(test.text, test.most); got != test.want || cut != test.cut {
			t.Errorf("%q, %d: %q, %v", test.text, test.most, got, cut)
		}
	}
}

// Whatever a job writes, no tag but span with these classes gets into the page.
func FuzzColoured(f *testing.F) {
	f.Add("\x1b[1;31mx\x1b[0m<\x1b]0;\a")
	f.Fuzz(func(t *testing.T, text string) {
		got := string(coloured(text))
		got = strings.ReplaceAll(got, "</span>", "")
		for {
			at := strings.IndexByte(got, '<')
			if at < 0 {
				break
			}
			tag, rest, closed := strings.Cut(got[at:], ">")
			class, is := strings.CutPrefix(tag, `<span class="`)
			if !closed || !is || strings.Trim(strings.TrimSuffix(class, `"`), "fab0123456789 ") != "" {
				t.Fatalf("%q: %q", text, tag)
			}
			got = rest
		}
	})
}

// Who begins to look at a view that others look at gets what the next making gives, which comes soon, though it is the
// same again. Whoever has it is not told twice.
func TestWhoLooksLaterGetsTheNextMaking(t *testing.T) {
	t.Parallel()
	p := &Page{}
	l := &look{Request: httptest.NewRequest(http.MethodGet, "/jobs/7", nil), page: p, session: principal.Known("", "", "127.0.0.1")}
	one := &stream{watchers: map[chan template.HTML]struct{}{}, joined: make(chan struct{}, 1)}
	p.streams.live = map[string]*stream{l.key(): one}
	first := p.watch(l, nil)
	<-one.joined
	p.tell(one, "as it was")
	check.Equal(t, <-first, "as it was")
	p.tell(one, "as it was")
	second := p.watch(l, nil)
	<-one.joined
	select {
	case got := <-second:
		t.Errorf("who looks later, at a newer page, gets %q", got)
	case got := <-first:
		t.Errorf("%q is told twice", got)
	default:
	}
	p.tell(one, "as it was")
	check.Equal(t, <-second, "as it was")
}

// However many views are looked at, they take a share of the time, and none gets too old.
func TestViewsTakeTheirShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		views int
		took  time.Duration
		want  time.Duration
	}{
		{1, 3 * time.Millisecond, 200 * time.Millisecond}, {20, 3 * time.Millisecond, 4 * time.Second}, {1, time.Second, 6 * time.Second}, {200, 20 * time.Millisecond, 205 * time.Second},
	} {
		p := &Page{}
		p.streams.live = map[string]*stream{}
		var one *stream
		for i := range c.views {
			one = &stream{took: c.took}
			p.streams.live[fmt.Sprint(i)] = one
		}
		check.Equal(t, p.pause(one, c.took), c.want, "%d views that take %v", c.views, c.took)
	}
}

var update = flag.Bool("update", false, "write the table of who may see and do what")

// The table in docs/page.md is what screens and acts are declared with.
func TestThePageOfDocsHasWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/page.md"
	text := string(must.Get(os.ReadFile(page))(t))
	may := map[string][]string{"status": {"/metrics*"}}
	for _, scope := range []string{"status", "read", "submit", "run", "admin"} {
		add := func(path string, needs api.Kind) { may[scope] = append(may[scope], letIn(t, scope, path, needs)...) }
		for _, s := range screens {
			add(s.path, s.needs)
			if s.then != nil {
				add(s.path+"?at", s.then.needs)
			}
		}
		for _, b := range besides {
			add(b.path, b.needs)
		}
		for _, a := range acts {
			add(a.path, a.needs)
		}
	}
	table := "| scope | |\n|---|---|\n| none | `/healthz`, `/readyz`, `/sign-in`, `/sign-out` |\n"
	for _, row := range []struct {
		scope, as string
		less      []string
	}{
		{"status", "", nil},
		{"read", "as `status`, and ", []string{"status"}},
		{"submit", "", nil},
		{"run", "as `read` and `submit`, and ", []string{"read", "submit"}},
		{"admin", "as `run`, and ", []string{"run"}},
	} {
		own := may[row.scope]
		for _, other := range row.less {
			own = slices.DeleteFunc(slices.Clone(own), func(address string) bool { return slices.Contains(may[other], address) })
		}
		table += fmt.Sprintf("| `%s` | %s%s |\n", row.scope, row.as, grouped(own))
	}
	between := regexp.MustCompile(`(?s)(<!-- who: [^\n]* -->\n).*(<!-- end of who -->)`)
	want := between.ReplaceAllString(text, "${1}"+table+"${2}")
	switch {
	case !between.MatchString(text):
		t.Error("there is no room for the table")
	case want != text && *update:
		must.Do(t, os.WriteFile(page, []byte(want), 0o644))
	case want != text:
		t.Errorf("%s: the table of who may do what is another one; go test ./cmd/internal/page -update writes it:\n%s", page, table)
	}
}

// letIn is an address where those of a scope may ask for it, with a mark where they need all targets.
func letIn(t *testing.T, scope, path string, needs api.Kind) []string {
	t.Helper()
	lets := func(targets string) bool {
		return needs.Lets(&principal.Session{Scope: must.Get(principal.ParseScope(scope))(t), Targets: must.Get(principal.ParseTargets(targets))(t)}) == nil
	}
	path = strings.NewReplacer("{$}", "", "{name}", "NAME", "{id}", "ID", "{stream}", "STREAM").Replace(path)
	switch {
	case lets("some"):
		return []string{path}
	case lets("*"):
		return []string{path + "*"}
	}
	return nil
}

// grouped lists addresses, those together that differ in their last part only.
func grouped(addresses []string) string {
	var folders []string
	last := map[string][]string{}
	for _, address := range addresses {
		i := strings.LastIndexByte(address, '/') + 1
		if i == 1 { // a screen
			i = len(address)
		}
		if !slices.Contains(folders, address[:i]) {
			folders = append(folders, address[:i])
		}
		last[address[:i]] = append(last[address[:i]], address[i:])
	}
	for i, folder := range folders {
		names := strings.Join(last[folder], ",")
		if len(last[folder]) > 1 {
			names = "{" + names + "}"
		}
		folders[i] = "`" + folder + names + "`"
	}
	return strings.Join(folders, ", ")
}
