package page

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// anAct is something that one may do. Where it needs a thought first, its address shows what it will do.
type anAct struct {
	path   string // its first part is that of the screen to which it leads back, unless back is set
	needs  api.Kind
	button string
	danger bool
	ask    func(*look) (intent, error)   // what it will do; nil: it is done at once
	do     func(*look) ([]string, error) // what has been done, in sentences
	back   func(*look) string            // nil: the screen that its address begins with
}

// intent is what an act will do, before it is done.
type intent struct {
	Title  string
	Will   []string // sentences
	Fields []field  // what is asked for
	Jobs   []affected
	More   int      // jobs beside those
	Meant  []string // what the form is about, and nothing that came to be since; nil: the address says that
}

// field is something that whoever acts may choose.
type field struct {
	Name, Label, Value, Hint string

	Options []string // none: what one types
}

// affected is a job that an act is about.
type affected struct {
	Job    jobnet.Whole
	Target string
	Text   string
}

// meant tells what the form that was sent is about. What was sent without one, by a program, is about all that the
// address leads to.
func (l *look) meant() func(key string) bool {
	form, is := l.PostForm["meant"]
	if !is {
		return func(string) bool { return true }
	}
	shown := map[string]bool{}
	for key := range strings.SplitSeq(form[0], ".") {
		shown[key] = true
	}
	return func(key string) bool { return shown[key] }
}

// mostAffected is how many jobs of an act are shown before it is done.
const mostAffected = 20

var acts = []*anAct{
	{path: "/targets/{name}/pause", needs: api.Pause.Kind, button: "Pause", ask: askPause, do: pause},
	{path: "/targets/{name}/continue", needs: api.Continue.Kind, do: resume},
	{path: "/targets/{name}/poke", needs: api.Poll.Kind, do: poke},
	{path: "/targets/{name}/recycle", needs: api.Recycle.Kind, button: "Recycle", ask: askRecycle, do: recycle},
	{path: "/targets/{name}/slots", needs: api.SetConcurrency.Kind, do: setSlots},
	{path: "/workers/{name}/reload", needs: api.Reload.Kind, do: reload},
	{path: "/workers/{name}/restart", needs: api.Restart.Kind, button: "Restart", danger: true, ask: askRestart, do: restart},
	{path: "/jobs/{id}/retry", needs: api.Retry.Kind, button: "Retry", ask: toRetry((*look).jobToRetry).ask, do: toRetry((*look).jobToRetry).do},
	{path: "/jobs/{id}/cancel", needs: api.Cancel.Kind, button: "Cancel it", danger: true, ask: askCancel, do: cancel},
	{path: "/jobs/{id}/signal", needs: api.SendSignal.Kind, button: "Send", danger: true, ask: askSignal, do: signal},
	{path: "/jobs/{id}/run-now", needs: api.RunNow.Kind, do: runNow},
	{path: "/jobs/retry", needs: api.Retry.Kind, button: "Retry", ask: askRetryAll, do: toRetry((*look).allToRetry).do, back: toFilter},
	{path: "/jobs/cancel", needs: api.Cancel.Kind, button: "Cancel them", danger: true, ask: askCancelAll, do: cancelAll, back: toFilter},
	{path: "/failed/retry", needs: api.Retry.Kind, button: "Retry", ask: toRetry((*look).groupToRetry).ask, do: toRetry((*look).groupToRetry).do},
	{path: "/schedules/{id}/run-now", needs: api.RunNow.Kind, do: runNow, back: toSchedules},
	{path: "/schedules/{id}/pause", needs: api.PauseSchedule.Kind, do: pauseSchedule, back: toSchedules},
	{path: "/schedules/{id}/continue", needs: api.ContinueSchedule.Kind, do: continueSchedule, back: toSchedules},
}

func toSchedules(*look) string { return "/schedules" }

// toFilter leads back to the jobs that were looked for.
func toFilter(l *look) string {
	f, err := l.filter()
	if err != nil {
		return "/jobs"
	}
	return f.Address("/jobs")
}

// act answers a request to do something: with the screen that it leads back to, and what was done.
func (p *Page) act(a *anAct) http.HandlerFunc {
	return p.handle(func(w http.ResponseWriter, l *look) error {
		if err := p.allows(l, a); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(l.ctx, patienceWithActs)
		defer cancel()
		l.ctx = ctx
		said, err := a.do(l)
		if err != nil && len(said) == 0 {
			return err
		}
		if err != nil {
			said = append(said, lines(err)...)
		}
		back := l.above()
		if a.back != nil {
			back = a.back(l)
		}
		http.Redirect(w, l.Request, withQuery(back, "said", p.said.keep(time.Now(), said)), http.StatusSeeOther)
		return nil
	})
}

// above is the screen of an act.
func (l *look) above() string { return path.Dir(l.URL.EscapedPath()) }

// withQuery is an address with one more value in its query.
func withQuery(address, name, value string) string {
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + url.Values{name: {value}}.Encode()
}

// patienceWithActs is how long an act may take: some wait for starts under way, or for locks of others.
const patienceWithActs = 60 * time.Second

// confirm shows what an act will do.
func (p *Page) confirm(a *anAct) http.HandlerFunc {
	return p.handle(func(w http.ResponseWriter, l *look) error {
		if err := p.allows(l, a); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(l.ctx, patience)
		defer cancel()
		l.ctx = ctx
		will, err := a.ask(l)
		if err != nil {
			return err
		}
		main, err := p.render(l, "confirm.html", struct {
			intent
			Button string
			Danger bool
			Action string
			Back   string
		}{will, a.button, a.danger, l.URL.RequestURI(), l.above()})
		if err == nil {
			l.title = will.Title
			p.frame(w, l, &aScreen{title: will.Title}, http.StatusOK, main)
		}
		return err
	})
}

// allows is the error of one who may not act. The daemon would refuse it all the same.
func (p *Page) allows(l *look, a *anAct) error {
	if err := a.needs.Lets(l.session); err != nil {
		return err
	}
	if p.ReadOnly {
		return refuse(http.StatusForbidden, "this page is read-only (http_read_only = yes): use jobctl")
	}
	return nil
}

// theTarget is the target of the address, in a request.
func (l *look) theTarget() api.Targets {
	return api.Targets{Targets: []string{l.PathValue("name")}, Detail: l.page.Master}
}

// tell asks for something about the target of the address. It is an error where nobody serves it.
func (l *look) tell(kind string, did string) ([]string, error) {
	var done api.Done
	if err := l.Daemon().AskInto(l.ctx, kind, l.theTarget(), &done); err != nil {
		return nil, operator.MayBeDone(err, kind)
	}
	name := screen.Clean(l.PathValue("name"))
	if len(done.Unserved) > 0 && kind != api.Poke.Name {
		return nil, notFound("no worker serves target %s: nothing was done", name)
	}
	text := fmt.Sprintf(did, name)
	if done.Workers != nil {
		text += fmt.Sprintf(" (%s)", countOf(*done.Workers, "worker"))
	}
	return []string{text}, nil
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return comma(n) + " " + what + "s"
}

func askPause(l *look) (will intent, err error) {
	f, err := l.fleet(l.PathValue("name"))
	if err != nil {
		return will, err
	}
	t, err := f.target(l.PathValue("name"))
	if err != nil {
		return will, err
	}
	will.Title = "Pause target " + screen.Clean(t.Target)
	will.Will = []string{
		fmt.Sprintf("No more of its jobs start on %s until somebody continues it or the worker restarts.", countOf(t.Workers, "worker")),
		fmt.Sprintf("%s under way run to their end; rows keep waiting.", countOf(t.Running, "job")),
	}
	return will, nil
}

func pause(l *look) ([]string, error) { return l.tell(api.Pause.Name, "Target %s is paused.") }
func resume(l *look) ([]string, error) {
	return l.tell(api.Continue.Name, "Target %s is no longer paused.")
}

func poke(l *look) ([]string, error) {
	if l.page.Master {
		return l.tell(api.Poke.Name, "Workers look for rows of target %s now.")
	}
	return l.tell(api.Poll.Name, "The worker looks for rows of target %s now.")
}

func askRecycle(l *look) (will intent, err error) {
	name := screen.Clean(l.PathValue("name"))
	return intent{Title: "Recycle target " + name, Will: []string{
		"Its pool processes are replaced by new ones, each as soon as it has no job. Jobs under way go on in the old ones.",
		"Targets without pool processes have nothing to replace.",
	}}, nil
}

func recycle(l *look) ([]string, error) {
	return l.tell(api.Recycle.Name, "The pool processes of target %s are replaced.")
}

// theWorker is a worker by its name.
func (l *look) theWorker(name string) (*operator.Worker, error) {
	workers, _, err := l.Daemon().Workers(l.ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if w.Name == name || !l.page.Master {
			return w, nil
		}
	}
	return nil, notFound("there is no worker %s", screen.Clean(name))
}

func setSlots(l *look) ([]string, error) {
	slots, err := strconv.Atoi(l.PostFormValue("slots"))
	if err != nil || slots < 1 {
		return nil, badQuery("%q slots are not allowed; allowed: a whole number of at least 1", screen.Clean(l.PostFormValue("slots")))
	}
	name := l.PostFormValue("worker")
	w, err := l.theWorker(name)
	if err != nil {
		return nil, err
	}
	target := l.PathValue("name")
	var done api.Done
	if err := w.Ask(l.ctx, api.SetConcurrency.Name, api.Slots{Target: target, Concurrency: slots}, &done); err != nil {
		return nil, operator.MayBeDone(err, api.SetConcurrency.Name)
	}
	return []string{fmt.Sprintf("Worker %s has %s for target %s, until its next reload or restart.", screen.Clean(name), countOf(slots, "slot"), screen.Clean(target))}, nil
}

func reload(l *look) ([]string, error) {
	w, err := l.theWorker(l.PathValue("name"))
	if err != nil {
		return nil, err
	}
	var told api.Reloaded
	if err := w.Ask(l.ctx, api.Reload.Name, api.None{}, &told); err != nil {
		return nil, operator.MayBeDone(err, api.Reload.Name)
	}
	said := []string{"Nothing has changed in " + screen.Clean(told.File) + "."}
	if len(told.Changed) > 0 {
		said[0] = "Changed in " + screen.Clean(told.File) + ": " + screen.Clean(strings.Join(told.Changed, ", ")) + "."
	}
	if len(told.Later) > 0 {
		said = append(said, "Counts from the next start on: "+screen.Clean(strings.Join(told.Later, ", "))+".")
	}
	for _, warning := range told.Warnings {
		said = append(said, "Warning: "+screen.Clean(warning))
	}
	return said, nil
}

func askRestart(l *look) (will intent, err error) {
	name := l.PathValue("name")
	if _, err = l.theWorker(name); err != nil {
		return will, err
	}
	return intent{Title: "Restart worker " + screen.Clean(name), Will: []string{
		"The worker starts again, with the program that is installed now. Jobs that run go on.",
		"Pauses and slots set by hand go back to what the configuration file says.",
	}}, nil
}

func restart(l *look) ([]string, error) {
	name := l.PathValue("name")
	w, err := l.theWorker(name)
	if err != nil {
		return nil, err
	}
	var next api.Restarted
	err = w.Ask(l.ctx, api.Restart.Name, api.Restarting{Next: true}, &next)
	if err != nil && !operator.LeftOpen(err, api.Restart.Name) {
		return nil, err
	}
	return []string{"Worker " + screen.Clean(name) + " restarts."}, err
}

// notices keep what was said of an act until the page is shown to which it led back.
type notices struct {
	mu   sync.Mutex
	said []notice // the oldest first
}

type notice struct {
	id    string
	lines []string
	at    time.Time
}

// Of so many notices, for so long.
const (
	mostNotices = 1000
	noticeLives = 10 * time.Minute
)

// keep keeps a notice, and gives what it is called in the address.
func (n *notices) keep(now time.Time, lines []string) (id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.said) > 0 && (len(n.said) >= mostNotices || now.Sub(n.said[0].at) > noticeLives) {
		n.said = n.said[1:]
	}
	id = rand.Text()
	n.said = append(n.said, notice{id, lines, now})
	return id
}

// take gives a notice. It stays, for who loads the page anew.
func (n *notices) take(id string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.said {
		if one.id == id {
			return one.lines
		}
	}
	return nil
}
