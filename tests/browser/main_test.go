package browser

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 2) }

// site is a master with two workers, each with its page, and what one sees there.
type site struct {
	db     *harness.Database
	master string // addresses of the pages
	north  string
	south  string

	daemon  *harness.Daemon // the master
	workers map[string]*harness.Daemon
	end     string // job 9 runs until this file is there
}

const secret = "a password that is long enough"

// newSite starts a fleet whose jobs write what they are told to, and has it run a few.
func newSite(t *testing.T) *site {
	t.Helper()
	end := filepath.Join(t.TempDir(), "end")
	launcher := harness.Script(t, strings.ReplaceAll(hostileLauncher, "END", end))
	s := newSiteOf(t, launcher, map[string]int{"mail": 2, "reports/daily": 1})
	s.end = end
	for _, worker := range s.workers {
		added := harness.Dial(t, worker.Addr)
		added.Authorise(t, secret)
		if answer := added.Ask(t, "add-target", map[string]any{"target": hostile, "concurrency": 1}); answer.Error != "" {
			t.Fatal(answer.Error)
		}
	}
	return s
}

// newSiteOf starts a fleet with a launcher and targets.
func newSiteOf(t *testing.T, launcher string, targets map[string]int) *site {
	t.Helper()
	s := &site{
		db: harness.NewDatabase(t), master: "127.0.0.1:" + harness.FreePort(t), workers: map[string]*harness.Daemon{},
	}
	master := harness.StartMaster(t, harness.Settings{"http_listen": s.master, "password": secret, "journal_dir": t.TempDir()})
	start := func(name string) string {
		at := "127.0.0.1:" + harness.FreePort(t)
		worker := s.db.Worker(t, name, launcher+" {id}", targets)
		s.workers[name] = worker.With(harness.MasterOf(master), harness.Settings{"http_listen": at, "password": secret}).StartWorker(t)
		return at
	}
	s.north, s.south = start("north"), start("south")
	s.daemon = master
	harness.AwaitWorkers(t, master, secret, 2)
	return s
}

// insert inserts a row, and has workers look.
func (s *site) insert(t *testing.T, id int64, target string) {
	t.Helper()
	s.db.Insert(t, id, target, "waiting")
	s.ask(t, "poke", target)
}

// ask asks the master for something about targets.
func (s *site) ask(t *testing.T, kind string, targets ...string) {
	t.Helper()
	link := harness.Dial(t, s.daemon.Addr)
	link.Authorise(t, secret)
	if answer := link.Ask(t, kind, map[string]any{"targets": targets}); answer.Error != "" {
		t.Fatal(answer.Error)
	}
}

// hostile is text that a page must show, and nothing else.
const hostile = `"><i onclick=x>`

// browser starts a browser that tells of everything that goes wrong in it.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: make test-browser installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %s", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				t.Errorf("the console has: %s", e.Args[0].Value)
			}
		}
	})
	must.Do(t, chromedp.Run(ctx))
	return ctx
}

// signIn signs in at a page, by its form.
func signIn(t *testing.T, ctx context.Context, at string) {
	t.Helper()
	must.Do(t, chromedp.Run(ctx,
		chromedp.Navigate("http://"+at+"/"),
		chromedp.WaitVisible(`input[name=credential]`),
		chromedp.SendKeys(`input[name=credential]`, secret+"\r"),
		chromedp.WaitVisible(`nav[aria-label=Pages]`),
	))
}

// screenOf makes the window of a width, dark or light.
func screenOf(width, height int64, dark bool) chromedp.Action {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(width, height, 1, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	}
}

// axe is what judges whether everybody can use a page.
func axe(t *testing.T) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(harness.Top(), "bin", "axe.min.js")))(t))
}

// violations are what axe finds, one a line.
const violations = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((found) =>
	found.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary.replace(/\s+/g, " "))).join("\n"))`

func await(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// get asks for a page as a program does that shows the password.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	request.Header.Set("Authorization", "Bearer "+secret)
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t))
}
