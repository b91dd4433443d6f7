package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// hostileLauncher writes what would be markup, and what would steer a terminal; the job that is 7 fails, and 9 runs on.
const hostileLauncher = `printf '%s\n\033[1;31mred\033[0m \033]0;t\007 \r over\n' ` + "'" + `<script>document.title="run"</script><img src=x onerror="document.title=\"run\"">` + "'" + `
printf '</pre><script>document.title="run"</script>' >&2
if [ $1 = 7 ]; then exit 7; fi
while [ $1 = 9 ] && [ ! -e END ]; do sleep 0.2; done`

// screens are the addresses of all screens, on a master; a worker has them, too.
var screens = []string{
	"/", "/?span=6h", "/targets", "/targets/mail", "/targets/reports%2Fdaily", "/targets/mail/pause", "/jobs", "/jobs?status=waiting", "/jobs?status=done&result=fail",
	"/jobs/7", "/jobs/9", "/jobs/9/cancel", "/jobs/9/signal", "/jobs/7/retry", "/failed", "/failed?by=time", "/schedules", "/workers", "/workers/north", "/workers/north/restart",
	"/timeline", "/journal", "/journal/verify", "/nothing", "/jobs/12345",
}

// filled gives a site with jobs of each kind.
func filled(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	for id := range int64(7) {
		s.insert(t, id+1, "mail")
	}
	s.insert(t, 8, hostile)
	s.db.AwaitCount(t, 8, "status = 'done'")
	s.insert(t, 9, "reports/daily")
	s.db.AwaitStatus(t, 9, "running")
	s.insert(t, 10, "nobody/here")
	return s
}

// Everybody can use each screen: on a telephone and on a wall, dark and light. Nothing that jobs wrote is run,
// and nothing is wider than the window.
func TestEachScreenIsForEverybody(t *testing.T) {
	t.Parallel()
	s, script := filled(t), axe(t)
	for _, on := range []struct {
		name, at      string
		width, height int64
		dark          bool
	}{{"master", s.master, 1280, 900, false}, {"master", s.master, 360, 800, true}, {"master", s.master, 3840, 2160, false}, {"worker", s.north, 1280, 900, true}} {
		t.Run(fmt.Sprint(on.name, on.width), func(t *testing.T) {
			t.Parallel()
			ctx := browser(t)
			signIn(t, ctx, on.at)
			for _, path := range screens {
				var title, found, wide string
				must.Do(t, chromedp.Run(ctx, screenOf(on.width, on.height, on.dark), chromedp.Navigate("http://"+on.at+path),
					chromedp.WaitReady("footer"), chromedp.Title(&title), chromedp.Evaluate(script, nil), chromedp.Evaluate(violations, &found, await),
					chromedp.Evaluate(`document.scrollingElement.scrollWidth > innerWidth + 1 ? [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, pre, svg")).map((e) => e.outerHTML.slice(0, 100)).slice(0, 3).join(" ") || "yes" : ""`, &wide)))
				if found != "" || wide != "" || title == "run" {
					t.Errorf("%s %s, %d px, dark %v: %q\n%s\nwider than the window: %s", on.name, path, on.width, on.dark, title, found, wide)
				}
				keep(t, ctx, on.name, path, on.width)
			}
		})
	}
}

// keep keeps a picture of a screen, where somebody wants to look at them.
func keep(t *testing.T, ctx context.Context, on, path string, width int64) {
	t.Helper()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	var picture []byte
	must.Do(t, chromedp.Run(ctx, chromedp.CaptureScreenshot(&picture)))
	name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", "&", "-", "%2F", "-").Replace(path), "-")
	must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", on, name, width)), picture, 0o600))
}

// All by keyboard: Tab comes to each link, button and field in turn, and each shows that it is there.
func TestAllByKeyboard(t *testing.T) {
	t.Parallel()
	s := filled(t)
	ctx := browser(t)
	signIn(t, ctx, s.master)
	for _, path := range []string{"/", "/targets/mail", "/jobs?status=waiting", "/jobs/7"} {
		var all int
		must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.master+path), chromedp.WaitReady("footer"),
			chromedp.Evaluate(`[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, [tabindex='0']")].length`, &all)))
		met := map[string]bool{}
		for range all + 2 {
			var at struct {
				Place   int
				Outline string
			}
			must.Do(t, chromedp.Run(ctx, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`({place: [...document.querySelectorAll("*")].indexOf(document.activeElement), outline: getComputedStyle(document.activeElement).outlineStyle})`, &at)))
			if at.Outline != "none" {
				met[fmt.Sprint(at.Place)] = true
			}
		}
		if len(met) < all {
			t.Errorf("%s: Tab comes to %d of %d", path, len(met), all)
		}
	}
	// Pausing a target without a mouse.
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.master+"/targets/mail"), chromedp.Focus(`a[href$="/pause"]`), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitReady(`form[method=post] button`), chromedp.Focus(`main form[method=post] button`), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`.said`)))
	var said string
	must.Do(t, chromedp.Run(ctx, chromedp.Text(`.said`, &said)))
	if !strings.Contains(said, "Target mail is paused") {
		t.Errorf("said: %q", said)
	}
}

// Without a script all is there but charts and what changes by itself.
func TestWithoutAScript(t *testing.T) {
	t.Parallel()
	s := filled(t)
	ctx := browser(t)
	must.Do(t, chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true)))
	signIn(t, ctx, s.master)
	for path, want := range map[string]string{
		"/": "Nothing", "/jobs/7": "exit code 7", "/failed": "7", "/journal/verify": "is sound", "/targets/mail": "works",
	} {
		var text string
		must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.master+path), chromedp.Text("main", &text)))
		if path == "/" { // the row that nobody serves is not known to the master: nobody has poked it
			want = "Running"
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.master+"/jobs/7/retry"), chromedp.Click(`main form[method=post] button`), chromedp.WaitVisible(`.said`)))
	s.db.AwaitCount(t, 1, "id = 7 AND status = 'done' AND result = 'fail'")
}

// A page shows what changes without being loaded anew, and keeps what somebody is typing in. That of a job rests
// when the job has ended.
func TestWhatChangesIsShown(t *testing.T) {
	t.Parallel()
	s := filled(t)
	ctx := browser(t)
	signIn(t, ctx, s.north)
	var still string
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.north+"/targets/mail"), chromedp.WaitReady("footer"),
		chromedp.Evaluate(`window.loaded = "once"; document.querySelector("input[name=slots]").value = "17"; document.querySelector("input[name=slots]").focus()`, nil)))
	worker := harness.Dial(t, s.workers["north"].Addr)
	worker.Authorise(t, secret)
	if answer := worker.Ask(t, "pause", map[string]any{"targets": []string{"mail"}}); answer.Error != "" {
		t.Fatal(answer.Error)
	}
	must.Do(t, chromedp.Run(ctx, chromedp.WaitVisible(`//dd[contains(., "paused")]`, chromedp.BySearch),
		chromedp.Evaluate(`window.loaded + document.querySelector("input[name=slots]").value`, &still)))
	if still != "once17" {
		t.Errorf("what was typed: %q", still)
	}
	// A job's end comes by itself, whichever worker has it.
	signIn(t, ctx, s.master)
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.master+"/jobs/9"), chromedp.WaitVisible(`//*[@id="why"][contains(., "runs")]`, chromedp.BySearch)))
	harness.Touch(t, s.end)
	must.Do(t, chromedp.Run(ctx, chromedp.WaitVisible(`//*[@id="why"][contains(., "is done")]`, chromedp.BySearch),
		chromedp.Poll(`source === null`, nil))) // nothing more is asked
}

// A page of another site gets nothing, and changes nothing.
func TestAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	s := filled(t)
	ctx := browser(t)
	signIn(t, ctx, s.master)
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="http://%s/targets/mail/pause"><button>go</button></form>`, s.master)
	}))
	t.Cleanup(foreign.Close)
	var text string
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate(foreign.URL)))
	answered, err := chromedp.RunResponse(ctx, chromedp.Evaluate(`document.querySelector("form").submit()`, nil))
	must.Do(t, err)
	must.Do(t, chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText`, &text)))
	if answered.Status != http.StatusForbidden {
		t.Errorf("the answer: %d %s", answered.Status, text)
	}
	if code, page := get(t, "http://"+s.master+"/targets/mail"); code != http.StatusOK || strings.Contains(page, "paused") {
		t.Errorf("%d, %s", code, page)
	}
}

// The numbers of the last minutes are drawn as lines.
func TestChartsAreDrawn(t *testing.T) {
	t.Parallel()
	s := filled(t)
	ctx := browser(t)
	signIn(t, ctx, s.master)
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate("http://"+s.master+"/"), chromedp.WaitVisible(".chart canvas")))
}

// A stream that is refused, since too many look at pages, is asked for again: the page says so.
func TestARefusedStreamIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy := httputil.NewSingleHostReverseProxy(must.Get(url.Parse("http://" + s.north))(t))
	var asked atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/event-stream" && asked.Add(1) == 1 {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	ctx := browser(t)
	must.Do(t, chromedp.Run(ctx, chromedp.Navigate(front.URL+"/targets"), chromedp.WaitVisible("#stale"), chromedp.WaitNotVisible("#stale")))
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}
