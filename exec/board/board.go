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
	Worker  string         // its name
	Targets map[string]int // concurrency by target
	Requeue bool           // a job of unknown outcome is started again, instead of failing
	// MaxAttempts: how often a job is started at most where Requeue is set, and neither row nor
	// target says.
	MaxAttempts int
	Delays      bool // rows may be delayed
	Again       bool // rows may come back
	Timing      Timing
}

// Board is all that a worker remembers of jobs, slots, claims in doubt and targets. It is not safe
// for concurrent use.
type Board struct {
	config     Config
	timing     Timing
	ahead      time.Duration // of the clock of the table's server
	targets    map[string]*Target
	unserved   map[string]*Target // of jobs that are under way still
	jobs       map[int64]*Job
	doubts     map[int64]*doubt
	skipped    map[int64]*Target // rows that wait while their job is under way here, or in doubt
	clients    map[int64]Client  // by job
	inbox      inbox
	redispatch []*Target // get more of their jobs started when the call under way ends
	effects    Effects   // of the call under way
	launcher   Starter   // of all targets that have nothing of their own
	added      int       // targets that were added
	stopping   bool
	failed     bool // the journal takes nothing more

	slots int // in use, of all targets
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
		b.equip(b.targets[name])
	}
	return b
}

// inbox is what the next turn journals.
type inbox struct {
	due     []*Job // have a slot, and wait to be announced
	begun   []*Job // are known to run
	ended   []ended
	leaving []*Job // wait to be given back
	signals []Signal
	cancels []Cancel // of jobs that run
}

// ended is a job whose start has ended.
type ended struct {
	job *Job
	Outcome
	ran bool // only its end tells that it was started
}

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

// Stopping tells whether nothing is started any more.
func (b *Board) Stopping() bool { return b.stopping }

// Holds tells whether a job is under way here, or its claim in doubt.
func (b *Board) Holds(id int64) bool {
	_, doubtful := b.doubts[id]
	_, claimed := b.jobs[id]
	return claimed || doubtful
}

// Select lists the jobs that are wanted, in order of their ids.
func (b *Board) Select(wanted func(*Job) bool) (jobs []*Job) {
	for _, j := range b.jobs {
		if wanted(j) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(one, other *Job) int { return cmp.Compare(one.id, other.id) })
	return jobs
}

// Fail notes that the journal takes nothing more: what is given up from now on was not lost to
// anybody.
func (b *Board) Fail() { b.failed = true }

// Wait notes that a client waits for each of some jobs. It fails, without having changed anything,
// where one is waited for already, which it names.
func (b *Board) Wait(ids []int64, clients map[int64]Client) (taken int64, ok bool) {
	for _, id := range ids {
		if _, waits := b.clients[id]; waits {
			return id, false
		}
	}
	for id, client := range clients {
		b.clients[id] = client
	}
	return 0, true
}

// Leave notes that clients wait no more, answered or not.
func (b *Board) Leave(ids []int64) {
	for _, id := range ids {
		delete(b.clients, id)
	}
}

// Clients counts the jobs that clients wait for.
func (b *Board) Clients() int { return len(b.clients) }

// RefuseClients tells clients why they hear nothing more of their jobs: all, or those whose jobs have no
// process.
func (b *Board) RefuseClients(all bool, why func(id int64) string) Effects {
	for id, client := range b.clients {
		if j := b.jobs[id]; all || j == nil || j.process == nil {
			b.effects.Told = append(b.effects.Told, Told{Client: client, Why: why(id)})
		}
	}
	return b.follow()
}

// Standing is where a job stands, for people.
type Standing struct {
	Phase   Phase  // of a claim in doubt none
	InDoubt bool   // it is not known whether its claim was won
	Lost    string // of a claim in doubt: why the worker gives it up
	Ignored bool   // in doubt is whether the row was ignored
	Target  string
	Manual  bool
	Attempt int
	Before  int       // jobs that wait before it in the queue
	Began   time.Time // when its start was announced; zero before that
	Reason  string    // of a job that is leaving
	Process Process
}

// Standing tells where a job stands; false where it is not under way here.
func (b *Board) Standing(id int64) (s Standing, known bool) {
	if j := b.jobs[id]; j != nil {
		s = Standing{
			Phase: j.phase, Target: j.target.name, Manual: j.claim.Manual, Attempt: j.attempt,
			Began: j.began, Reason: j.reason, Process: j.process,
		}
		if j.phase == Queued {
			s.Before = max(slices.Index(j.target.queue, j), 0)
		}
		return s, true
	}
	if d := b.doubts[id]; d != nil {
		claim, claims := d.of.(journal.Accepted)
		return Standing{InDoubt: true, Lost: d.lost, Ignored: !claims, Target: d.target, Manual: claim.Manual}, true
	}
	return Standing{}, false
}
