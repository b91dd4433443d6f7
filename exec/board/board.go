package board

import (
	"cmp"
	"maps"
	"slices"

	"jobd/journal"
)

// Config says how a board decides.
type Config struct {
	Targets     map[string]int // concurrency by target
	Requeue     bool           // a job of unknown outcome is started again, instead of failing
	MaxAttempts int            // how often a job is started at most where Requeue is set
}

// Board is all that a worker remembers of jobs, slots, claims in doubt and targets. It is not safe
// for concurrent use.
type Board struct {
	config   Config
	targets  map[string]*Target
	jobs     map[int64]*Job
	doubts   map[int64]*doubt
	skipped  map[int64]*Target // rows that wait while their job is under way here, or in doubt
	clients  map[int64]Client  // by job
	inbox    inbox
	effects  Effects // of the call under way
	hitch    *Hitch  // why no job can be started; nil where nothing is wrong
	hitches  hitches
	launcher int // how often the launcher was replaced
	added    int // targets that were added
	stopping bool
	failed   bool // the journal takes nothing more

	slots    int // in use, of all targets
	starting int // jobs in a phase that starts
	working  int // jobs in a phase that works
	started  chan struct{}
	worked   chan struct{}
}

// New makes a board with targets and no job.
func New(c Config) *Board {
	b := &Board{
		config: c, targets: make(map[string]*Target), jobs: make(map[int64]*Job), doubts: make(map[int64]*doubt),
		skipped: make(map[int64]*Target), clients: make(map[int64]Client),
	}
	for name, concurrency := range c.Targets {
		b.targets[name] = &Target{name: name, concurrency: concurrency}
	}
	return b
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

// Stop has nothing started any more: what has not started is given back.
func (b *Board) Stop() Effects {
	b.stopping = true
	for _, t := range b.targets {
		b.takeBackAll(t)
	}
	return b.follow()
}

// Fail notes that the journal takes nothing more: what is given up from now on was not lost to
// anybody.
func (b *Board) Fail() { b.failed = true }

// SetPaused pauses targets, whose jobs that have not started are taken back; or continues them.
func (b *Board) SetPaused(targets []*Target, paused bool) Effects {
	for _, t := range targets {
		t.paused = paused
	}
	for _, t := range targets {
		if paused {
			b.takeBackAll(t)
		} else {
			b.dispatch(t)
		}
	}
	return b.follow()
}

// Add makes a target served.
func (b *Board) Add(name string, concurrency int) *Target {
	b.added++
	t := &Target{name: name, concurrency: concurrency, since: b.added}
	b.targets[name] = t
	return t
}

// Remove makes a target served no more.
func (b *Board) Remove(name string) { delete(b.targets, name) }

// Retire has a target removed as soon as it is empty, on whose behalf by says. Nothing more is
// claimed for it.
func (b *Board) Retire(t *Target, by string) { t.retiring, t.retiredBy = true, by }

// Keep takes that back.
func (b *Board) Keep(t *Target) Effects {
	t.retiredBy = ""
	return b.Reopen(t, true)
}

// Close has nothing more claimed for a target. It tells whether that was otherwise before.
func (b *Board) Close(t *Target) (wasOpen bool) {
	wasOpen, t.retiring = !t.retiring, true
	return wasOpen
}

// Reopen takes that back where the target was open before, and looks for its rows.
func (b *Board) Reopen(t *Target, wasOpen bool) Effects {
	t.retiring = !wasOpen
	return Effects{Poll: []string{t.name}}
}

// SetConcurrency changes how many jobs of a target may run at once. What runs goes on.
func (b *Board) SetConcurrency(t *Target, concurrency int) Effects {
	t.concurrency = concurrency
	b.dispatch(t)
	return b.follow()
}

// Retired tells whether a target is to be removed now, and on whose behalf.
func (b *Board) Retired(t *Target) (by string, now bool) {
	return t.retiredBy, t.retiredBy != "" && t.Length() == 0 && !b.stopping && b.targets[t.name] == t
}

// newJob makes a job, which the caller moves to its first phase.
func (b *Board) newJob(id int64, claim journal.Accepted, attempt int) *Job {
	t, served := b.targets[claim.Target]
	if !served {
		t = &Target{name: claim.Target}
	}
	j := &Job{id: id, target: t, claim: claim, attempt: attempt, client: b.clients[id]}
	b.jobs[id] = j
	return j
}

// remove takes a job off the board: the journal has its end, or the next start takes it up. What
// waited for its slot or its end is next.
func (b *Board) remove(j *Job) {
	b.move(j, Gone)
	b.unskip(j.id)
	b.dispatch(j.target)
	if _, now := b.Retired(j.target); now {
		b.effects.Empty = append(b.effects.Empty, j.target)
	}
}

// drop takes a job off the board without an outcome. The journal says already what became of it.
func (b *Board) drop(j *Job, why string) {
	b.refuse(j, why)
	b.remove(j)
}

// unskip has the target of a row that was passed over look at the table: nothing is in the row's
// way here any more.
func (b *Board) unskip(id int64) {
	if t, skipped := b.skipped[id]; skipped {
		delete(b.skipped, id)
		b.effects.Poll = append(b.effects.Poll, t.name)
	}
}

// Skipped lists the rows of a target that claims are to leave out: their job is under way here, or
// in doubt.
func (b *Board) Skipped(asked func(target string) bool) (ids []int64) {
	for id, t := range b.skipped {
		if asked(t.name) {
			ids = append(ids, id)
		}
	}
	for id, d := range b.doubts {
		if asked(d.Target) {
			ids = append(ids, id)
		}
	}
	return ids
}
