package page

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/cmd/internal/web"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// Config is what the page needs of its daemon.
type Config struct {
	Name     string // of the worker; of a master its host
	Master   bool
	ReadOnly bool                                      // no act is offered, or done
	Open     func(*principal.Session) *operator.Daemon // leads into the daemon, on somebody's behalf
	Log      *slog.Logger
}

// Page answers requests of browsers.
type Page struct {
	Config

	mux     *http.ServeMux
	streams streams
	said    notices
	usual   usuals
}

// patience is how long a view may ask, and a step of what acts may; workersTime is how long it waits for how a
// master's workers stand, of which one may hang.
const (
	patience    = 10 * time.Second
	workersTime = time.Second
)

// New makes the page of a daemon.
func New(c Config) *Page {
	p := &Page{Config: c, mux: http.NewServeMux()}
	for _, s := range screens {
		handler := p.screen(s)
		if s.path == "/jobs" {
			handler = p.findJob(handler)
		}
		p.mux.HandleFunc("GET "+s.path, handler)
	}
	for _, b := range besides {
		p.mux.HandleFunc("GET "+b.path, p.beside(b))
	}
	for _, a := range acts {
		if a.ask != nil {
			p.mux.HandleFunc("GET "+a.path, p.confirm(a))
		}
		p.mux.HandleFunc("POST "+a.path, p.act(a))
	}
	p.mux.HandleFunc("GET /static/{stamp}/{file}", p.file)
	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, p.look(r), notFound("there is no page at %s", screen.Clean(r.URL.Path)))
	})
	return p
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// aScreen is a page with an address of its own.
type aScreen struct {
	path     string
	title    string        // in the browser's tab, and in the bar where nav is set
	nav      bool          // it is in the bar
	template string        // of its main part
	needs    api.Kind      // who may ask this may see it
	live     time.Duration // how often it is looked at anew while somebody looks at it; 0: never
	charts   bool
	view     func(*look) (any, error)
	then     *aScreen // as it was at a time, by the journals; nil: it shows what is
}

// look is one request, and what a view needs to answer it.
type look struct {
	*http.Request
	page    *Page
	ctx     context.Context
	session *principal.Session
	now     time.Time

	daemon *operator.Daemon // nil: nobody has asked it yet
	title  string           // "": the screen's own
	at     time.Time        // as it was then; the zero time: as it is
	notes  []error          // of those who could not be asked
}

func (p *Page) look(r *http.Request) *look {
	return &look{Request: r, page: p, ctx: r.Context(), session: web.SessionOf(r.Context()), now: time.Now()}
}

// Daemon is the daemon as whoever looks at it may ask it.
func (l *look) Daemon() *operator.Daemon {
	if l.daemon == nil {
		l.daemon = l.page.Open(l.session)
		l.daemon.WorkersTime = workersTime
	}
	return l.daemon
}

func (l *look) close() {
	if l.daemon != nil {
		l.daemon.Close()
	}
}

// May tells whether whoever looks may ask something of the daemon, as far as it is not about a target.
func (l *look) May(kind api.Kind) bool {
	return kind.Lets(l.session) == nil && (!l.page.ReadOnly || !kind.Changes && kind.Name != api.Poll.Name && kind.Name != api.Poke.Name)
}

// note keeps what is told beside the answer: those who were silent take nothing from the others.
func (l *look) note(err error) { l.noteAll([]error{err}) }

func (l *look) noteAll(errs []error) {
	l.notes = append(l.notes, slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })...)
}

// moment is a time that the address names, in the server's zone; the zero time where it names none.
func (l *look) moment(name, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = operator.ParseTime(text, l.now, time.Local); err != nil {
		return at, badQuery("%s %s", name, screen.Clean(err.Error()))
	}
	return at, nil
}

// handle answers a request, or says why it does not.
func (p *Page) handle(answer func(http.ResponseWriter, *look) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l := p.look(r)
		defer l.close()
		if err := answer(w, l); err != nil {
			p.fail(w, l, err)
		}
	}
}

// beside answers a request for what is no screen.
func (p *Page) beside(b aBeside) http.HandlerFunc {
	return p.handle(func(w http.ResponseWriter, l *look) error {
		if err := b.needs.Lets(l.session); err != nil {
			return err
		}
		return b.serve(p, w, l)
	})
}

// screen answers a request for a screen.
func (p *Page) screen(s *aScreen) http.HandlerFunc {
	return p.handle(func(w http.ResponseWriter, l *look) error {
		s, then := s, s.then != nil && l.value("at") != ""
		if then {
			s = s.then
		}
		if err := s.needs.Lets(l.session); err != nil {
			return err
		}
		if then {
			return p.then(w, l, s)
		}
		if s.live > 0 && l.Header.Get("Accept") == "text/event-stream" {
			p.stream(w, l, s)
			return nil
		}
		main, err := p.main(l, s)
		if err == nil {
			p.frame(w, l, s, http.StatusOK, main)
		}
		return err
	})
}

// main is what a screen shows inside of the frame.
func (p *Page) main(l *look, s *aScreen) (template.HTML, error) {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	l.ctx = ctx
	return p.shown(l, s)
}

// shown is what a screen shows, however long that takes. A view that panics, whatever a peer has told it, ends no
// daemon: some are made beside the requests that net/http guards.
func (p *Page) shown(l *look, s *aScreen) (main template.HTML, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.Log.Error("a page could not be made", "template", s.template, "panic", v, "stack", string(debug.Stack()))
			err = errBroken
		}
	}()
	shown, err := s.view(l)
	switch {
	case errors.Is(err, operator.ErrNoWorkers): // then that is what there is to see
		return p.render(l, "fail.html", lines(err))
	case err != nil:
		return "", err
	}
	return p.render(l, s.template, shown)
}

// errBroken is all that somebody is told whose page could not be made.
var errBroken = errors.New("the page could not be made: the daemon's log says why")

// fail says why something was not done or shown.
func (p *Page) fail(w http.ResponseWriter, l *look, err error) {
	code, title := codeOf(err), "Not done"
	switch code {
	case http.StatusNotFound:
		title = "Not found"
	case http.StatusForbidden:
		title = "Not allowed"
	case http.StatusBadRequest:
		title = "Not understood"
	}
	l.title = title
	main, broken := p.render(l, "fail.html", lines(err))
	if broken != nil {
		http.Error(w, screen.Clean(err.Error()), code)
		return
	}
	p.frame(w, l, &aScreen{title: title}, code, main)
}

// refusal is an error of the page itself.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func notFound(format string, args ...any) error { return refuse(http.StatusNotFound, format, args...) }

func badQuery(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// codeOf is the HTTP status of an error.
func codeOf(err error) int {
	var own *refusal
	if errors.As(err, &own) {
		return own.code
	}
	switch jobnet.CodeOf(err) {
	case jobnet.CodeForbidden:
		return http.StatusForbidden
	case jobnet.CodeNotFound:
		return http.StatusNotFound
	case jobnet.CodeInvalid:
		return http.StatusBadRequest
	case jobnet.CodeRefused:
		return http.StatusConflict
	case jobnet.CodeLimit:
		return http.StatusTooManyRequests
	}
	switch {
	case errors.Is(err, operator.ErrNoWorkers):
		return http.StatusServiceUnavailable
	case exit.Code(err) == exit.Connect:
		return http.StatusBadGateway
	case operator.Unanswered(err), errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// id is the job of the address.
func (l *look) id() (jobnet.Whole, error) {
	text := l.PathValue("id")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == 0 {
		return 0, notFound("%s is not a job: its id must be a whole number, and not 0", screen.Clean(text))
	}
	return jobnet.Whole(n), nil
}

// lines are the sentences of an error.
func lines(err error) (list []string) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, screen.Clean(line))
		}
	}
	return list
}

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// How often a view is made anew while somebody looks at it.
const (
	soon  = 2 * time.Second
	later = 10 * time.Second
)

// aBeside is an answer that is no screen: what one of them asks for, or leads to.
type aBeside struct {
	path  string
	needs api.Kind
	serve func(*Page, http.ResponseWriter, *look) error
}

var besides = []aBeside{
	{"/jobs/{id}/output/{stream}", api.Output.Kind, (*Page).download},
	{"/journal/verify", api.Kinds[api.JournalVerify], (*Page).verify},
	{"/rates", api.Rates.Kind, (*Page).rates},
}

// screens are all that there is to see, in the order of the bar.
var screens []*aScreen

// How some of them were at a time.
var (
	targetsThen = &aScreen{title: "Targets", template: "targets-then", needs: api.Kinds[api.JournalState], view: targetsAt}
	jobsThen    = &aScreen{title: "Jobs", template: "jobs.html", needs: api.Kinds[api.JournalState], view: jobsAt}
	jobThen     = &aScreen{title: "Job", template: "job-then", needs: api.Kinds[api.JournalState], view: jobAt}
)

func init() { // a screen's view shows the bar, which has all screens
	screens = []*aScreen{
		{path: "/{$}", title: "Overview", nav: true, template: "front.html", needs: api.Status.Kind, live: soon, charts: true, view: frontView},
		{path: "/targets", title: "Targets", nav: true, template: "targets.html", needs: api.Status.Kind, live: soon, view: targetsView, then: targetsThen},
		{path: "/targets/{name}", title: "Target", template: "target.html", needs: api.Status.Kind, live: soon, charts: true, view: targetView},
		{path: "/jobs", title: "Jobs", nav: true, template: "jobs.html", needs: api.Jobs.Kind, view: jobsView, then: jobsThen},
		{path: "/jobs/{id}", title: "Job", template: "job.html", needs: api.Explain.Kind, live: soon, view: jobView, then: jobThen},
		{path: "/failed", title: "Failed", nav: true, template: "failed.html", needs: api.Kinds[api.JournalEvents], view: failedView},
		{path: "/schedules", title: "Schedules", nav: true, template: "schedules.html", needs: api.Recurring.Kind, view: schedulesView},
		{path: "/workers", title: "Workers", nav: true, template: "workers.html", needs: api.Status.Kind, live: soon, view: workersView},
		{path: "/workers/{name}", title: "Worker", template: "worker.html", needs: api.Status.Kind, live: soon, view: workerView},
		{path: "/timeline", title: "Timeline", nav: true, template: "timeline.html", needs: api.Jobs.Kind, live: later, view: timelineView},
		{path: "/journal", title: "Journal", nav: true, template: "journal.html", needs: api.Kinds[api.JournalEvents], view: journalView},
	}
}
