package live

import (
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Config says what is shown, how often it is asked for, and where it is drawn.
type Config struct {
	Source   Source
	Daemon   string        // what it is connected to, in words
	Master   bool          // a master is at the other end
	Interval time.Duration // between two requests of a kind
	Now      func() time.Time
	Location *time.Location
	Colour   bool // decoration only
	In       io.Reader
	Out      io.Writer // the terminal itself
	Environ  []string
}

// waitingEvery is how often the table is asked how much waits, at most: that costs the database
// something.
const waitingEvery = 5 * time.Second

// model is the state of the view. It is for one goroutine, but for the requests that it makes.
type model struct {
	config Config
	ctx    context.Context
	wake   func(time.Duration) tea.Cmd // the next tick

	now           time.Time
	width, height int

	fleet    poll[*operator.Census]
	problems []operator.Problem // that the fleet has
	running  poll[operator.RunningJobs]
	waiting  poll[Waiting]
	asked    map[string]bool // the targets for which was counted last

	chosen pane
	at     [panes]cursor
	sort   string
	help   bool

	question *question
	doing    string // the action under way, in words
	said     note   // what came of the newest one
}

// note is what is said for a while.
type note struct {
	text  string
	bad   bool
	until time.Time
}

// noteFor is how long it is said.
const noteFor = 15 * time.Second

// newModel makes a model whose requests end with ctx.
func newModel(ctx context.Context, config Config) *model {
	m := &model{config: config, ctx: ctx, now: config.Now(), sort: api.SortAge, chosen: targetsPane}
	m.wake = func(after time.Duration) tea.Cmd {
		return tea.Tick(after, func(time.Time) tea.Msg { return tick{} })
	}
	return m
}

// Run shows the view until the person leaves it, or ctx ends; then its error is ctx's.
func Run(ctx context.Context, config Config) error {
	requests, cancel := context.WithCancel(ctx)
	defer cancel()
	program := tea.NewProgram(
		newModel(requests, config), tea.WithContext(ctx), tea.WithInput(config.In), tea.WithOutput(config.Out),
		tea.WithEnvironment(config.Environ), tea.WithoutSignalHandler(),
	)
	_, err := program.Run()
	return err
}

// tick says that an interval has passed.
type tick struct{}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.wake(m.config.Interval), m.ask()) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = m.config.Now()
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tick:
		cmd = m.wake(m.config.Interval)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case answered[*operator.Census]:
		if m.fleet.end(msg); msg.err == nil {
			m.problems = msg.answer.Problems(operator.Clock{Now: m.now, Location: m.config.Location, Brief: true})
		}
	case answered[operator.RunningJobs]:
		m.listed(msg)
	case answered[Waiting]:
		m.waiting.end(msg)
	case done:
		m.ended(msg)
	}
	m.settle()
	return m, tea.Batch(cmd, m.ask())
}

// listed takes a list of what runs.
func (m *model) listed(a answered[operator.RunningJobs]) {
	a.answer.Sort(m.sort)
	for i := range a.answer.Jobs {
		if !m.config.Master { // whose name its jobs don't tell
			a.answer.Jobs[i].Worker = nameOf(m.workers()[0])
		}
	}
	m.running.end(a)
}

// ask sends the requests that are due.
func (m *model) ask() tea.Cmd {
	if m.width == 0 {
		return nil // nobody knows yet how much fits
	}
	var cmds []tea.Cmd
	if m.fleet.due(m.now, m.config.Interval) {
		m.fleet.begin(m.now)
		cmds = append(cmds, request(m, m.config.Source.Fleet))
	}
	if m.fleet.known && m.running.due(m.now, m.config.Interval) {
		m.running.begin(m.now)
		query := api.RunningQuery{Sort: m.sort, Most: min(max(1, m.at[jobsPane].top+m.rooms().rows[jobsPane]), api.MostRunning)} // as many as fit
		cmds = append(cmds, request(m, func(ctx context.Context) (operator.RunningJobs, error) {
			return m.config.Source.Running(ctx, query)
		}))
	}
	if targets := m.shownTargets(); len(targets) > 0 && m.waitingDue(targets) {
		m.waiting.begin(m.now)
		m.asked = map[string]bool{}
		for _, name := range targets {
			m.asked[name] = true
		}
		fleet := m.fleet.answer
		cmds = append(cmds, request(m, func(ctx context.Context) (Waiting, error) {
			return m.config.Source.Waiting(ctx, fleet, targets)
		}))
	}
	return tea.Batch(cmds...)
}

// request is a request of its own goroutine.
func request[A any](m *model, ask func(context.Context) (A, error)) tea.Cmd {
	return func() tea.Msg {
		answer, err := ask(m.ctx)
		return answered[A]{answer, err, m.config.Now()}
	}
}

// waitingDue tells whether what waits is to be counted: every few seconds, and when a target is
// shown that was not counted.
func (m *model) waitingDue(targets []string) bool {
	every := max(waitingEvery, m.config.Interval)
	if m.waiting.err != nil {
		every = m.config.Interval
	}
	if m.waiting.due(m.now, every) {
		return true
	}
	return m.waiting.due(m.now, m.config.Interval) && slices.ContainsFunc(targets, func(name string) bool { return !m.asked[name] })
}

// poll is what is asked for again and again: the newest answer, and the request under way.
type poll[A any] struct {
	answer   A
	known    bool // there was an answer
	err      error
	begun    time.Time // when the newest request was sent
	underWay bool
	good     time.Time // of the newest answer
}

// answered is the message that a request has come to its end.
type answered[A any] struct {
	answer A
	err    error
	at     time.Time
}

// due tells whether it is to be asked for now, once an interval. A tick that comes a little early
// counts.
func (p *poll[A]) due(now time.Time, interval time.Duration) bool {
	return !p.underWay && now.Sub(p.begun) >= interval-interval/10
}

func (p *poll[A]) begin(now time.Time) { p.begun, p.underWay = now, true }

// end takes an answer. What was known stays where there is none.
func (p *poll[A]) end(a answered[A]) {
	p.underWay, p.err = false, a.err
	if a.err == nil {
		p.answer, p.known, p.good = a.answer, true, a.at
	}
}

// patience is how long an answer may take before the view says that it is waited for.
const patience = 2 * time.Second

// silence says since when there is no answer; false while there is nothing to say.
func (p *poll[A]) silence(now time.Time) (since time.Time, silent bool) {
	since = p.good
	if since.IsZero() {
		since = p.begun
	}
	return since, p.err != nil || p.underWay && now.Sub(p.begun) > patience
}

// Source asks the daemon at the other end, a worker or a master, and makes a lost connection again.
// Its methods are called at the same time, end with their context, and wait no longer for an answer
// than is usual. What one of several workers can't tell is no error: the others' answers count.
type Source interface {
	// Fleet tells what the daemon says of itself, or a master of its workers.
	Fleet(ctx context.Context) (*operator.Census, error)
	// Running lists running jobs: at most q.Most of each worker.
	Running(ctx context.Context, q api.RunningQuery) (operator.RunningJobs, error)
	// Waiting counts what waits for these targets.
	Waiting(ctx context.Context, fleet *operator.Census, targets []string) (Waiting, error)
	// Do carries an action out, and says what the daemon answered.
	Do(ctx context.Context, action Action) (string, error)
}

// Job is a running job.
type Job = operator.RunningJob

// Waiting is what waits in the table. Targets that it does not tell of are not known.
type Waiting struct {
	Targets map[string]api.WaitingTarget
	Silent  []error // why something can't be told
}

// Action is something that a person wants done. It is about a target or about a job.
type Action struct {
	Kind   ActionKind
	Target string
	Job    Job
}

// ActionKind is what is to be done.
type ActionKind int

// The actions.
const (
	Pause ActionKind = iota
	Continue
	Poke
	Cancel
)

// id is a job's number as people write it.
func id(job jobnet.Whole) string { return strconv.FormatInt(int64(job), 10) }

// since is when a running job was started.
func since(job Job) time.Time { return time.UnixMilli(job.Since) }
