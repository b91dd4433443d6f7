package board

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"jobd/journal"
)

// Config says how a board decides.
type Config struct {
	Targets     map[string]int // concurrency by target
	Requeue     bool           // a job of unknown outcome is started again, instead of failing
	MaxAttempts int            // how often a job is started at most where Requeue is set, and neither row nor target says
	Delays      bool           // rows may be delayed
	Again       bool           // rows may come back
	Timing      Timing
}

// Board is all that a worker remembers of jobs, slots, claims in doubt and targets. It is not safe
// for concurrent use.
type Board struct {
	config     Config
	timing     Timing
	ahead      time.Duration // of the clock of the table's server
	targets    map[string]*Target
	unserved   map[string]*Target // of jobs of a former run that are under way still
	jobs       map[int64]*Job
	doubts     map[int64]*doubt
	skipped    map[int64]*Target // rows that wait while their job is under way here, or in doubt
	clients    map[int64]Client  // by job
	inbox      inbox
	redispatch []*Target // get more of their jobs started when the call under way ends
	effects    Effects   // of the call under way
	hitch      *Hitch    // why no job can be started; nil where nothing is wrong
	hitches    hitches
	launcher   int // how often the launcher was replaced
	added      int // targets that were added
	stopping   bool
	failed     bool // the journal takes nothing more

	slots    int // in use, of all targets
	starting int // jobs in a phase that starts
	working  int // jobs in a phase that works
	started  chan struct{}
	worked   chan struct{}
}

// New makes a board with targets and no job.
func New(c Config) *Board {
	b := &Board{
		config: c, timing: c.Timing, targets: make(map[string]*Target), unserved: make(map[string]*Target),
		jobs: make(map[int64]*Job), doubts: make(map[int64]*doubt), skipped: make(map[int64]*Target), clients: make(map[int64]Client),
	}
	b.config.Delays = c.Delays || c.Again
	for name, concurrency := range c.Targets {
		b.targets[name] = &Target{name: name, concurrency: concurrency}
	}
	return b
}

// inbox is what the next turn journals.
type inbox struct {
	due     []*Job // have a slot, and are to be announced
	begun   []*Job // are known to run
	ended   []ended
	leaving []*Job // are to be given back
	signals []Signal
	cancels []Cancel // of jobs that run
}

// ended is a job whose start has ended.
type ended struct {
	job *Job
	Outcome
	ran bool // only its end tells that it was started
}

// doubt is a claim of which it is not known whether it was won, or that was not and is to be given
// up; or the same of a row that was to be ignored, or set back.
type doubt struct {
	journal.Accepted
	ignored bool             // no claim: the row was to be ignored
	retried *journal.Retried // no claim: the row was to be set back
	client  Client           // waits to hear whether it was; nil: nobody does
	former  bool             // by a former run of the worker
	started bool             // if it was won, it may have been started, by a runner that is gone
	lost    string           // not "": it is to be given up, and this is why
	rest    Backoff          // of the question whether it was won
	alone   bool             // the table is asked about it by itself
	setBack int64            // when its row ended before it was set back to wait, in seconds since 1970; 0: it was not
}

// Hitch is why no job can be started: the system refuses to execute the launcher, or is short of
// what a process takes. Such a start never happened, so it is no outcome: the job is given back, as
// is all that has not started, nothing is claimed, and clients are told the reason. A second
// attempt is not given back, because the journal says that its job ran: it waits in its queue, and
// keeps its number.
//
// The launcher is looked at again, after 1 s at first and 30 s at most, and when somebody polls,
// continues, or has the configuration read again. Where a look showed what was wrong, and shows
// that it is right, jobs are started again. What only a start can tell, one job tells: the probe.
// It is the only one that is claimed, and when it runs all others are.
type Hitch struct {
	why     string
	short   bool // what is missing comes back by itself
	since   time.Time
	seen    bool // a look shows it
	looking int  // the launcher that is looked at, counted from 1; 0: none is
	looked  time.Time
	ready   bool // the next job to be started is the probe
	probe   *Job // is about to be started, to see
}

// hitches is what is kept beyond one hitch.
type hitches struct {
	rest  Backoff   // until the launcher is looked at again
	ended time.Time // when jobs could be started again
}

// Text says so in words, for operators, clients and the journal.
func (h *Hitch) Text() string {
	if h.short {
		return "no job can be started for now: " + h.why
	}
	return "the launcher can't be executed: " + h.why
}

// Since is when it began.
func (h *Hitch) Since() time.Time { return h.since }

// Names lists the targets served, in order: those of the start by name, then the others as they
// came.
func (b *Board) Names() []string {
	return slices.SortedFunc(maps.Keys(b.targets), func(one, other string) int {
		return cmp.Or(cmp.Compare(b.targets[one].since, b.targets[other].since), cmp.Compare(one, other))
	})
}

// Target is the target of a name; nil where it is not served.
func (b *Board) Target(name string) *Target { return b.targets[name] }

// Job is the job of an id; nil where it is not under way here.
func (b *Board) Job(id int64) *Job { return b.jobs[id] }

// Jobs counts the jobs that are under way here.
func (b *Board) Jobs() int { return len(b.jobs) }

// Starting counts the starts and releases that are under way.
func (b *Board) Starting() int { return b.starting }

// Stopping tells whether nothing is started any more.
func (b *Board) Stopping() bool { return b.stopping }

// Holds tells whether a job is under way here, or its claim in doubt.
func (b *Board) Holds(id int64) bool {
	_, doubtful := b.doubts[id]
	_, claimed := b.jobs[id]
	return claimed || doubtful
}

// Hitch is why no job can be started; nil where nothing is wrong.
func (b *Board) Hitch() *Hitch { return b.hitch }

// RunningJobs lists the jobs that have a process, or whose start was asked for.
func (b *Board) RunningJobs() (ids []int64) {
	for id, j := range b.jobs {
		if j.hasProcess() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// MovesFrom gives, for each job of some targets (nil: all) that is in a phase, a channel that is
// closed when it moves on.
func (b *Board) MovesFrom(p Phase, targets []string) (moves []<-chan struct{}) {
	for _, j := range b.jobs {
		if j.phase == p && (targets == nil || slices.Contains(targets, j.target.name)) {
			moves = append(moves, j.Moved())
		}
	}
	return moves
}

// Fail notes that the journal takes nothing more: what is given up from now on was not lost to
// anybody.
func (b *Board) Fail() { b.failed = true }
