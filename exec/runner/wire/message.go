package wire

import (
	"errors"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"jobd/exec/runner/proc"
	"jobd/journal"
)

// The worker begins with hello. The runner answers with its own, in which it lists the jobs that it
// still has from former workers.
//
//	worker                           runner
//	hello {version, words}       ──►
//	                             ◄── hello {version, instance, jobs}
//	environment {env}            ──► for the starts that follow
//	start {id, argv, dir, limits,
//	       account}              ──►
//	                             ◄── refused {id, text, class}
//	                             ◄── started {id, process}, when it has run for 4 ms
//	signal {id, signo}           ──►
//	                             ◄── started, where the worker does not know it yet
//	                             ◄── signalled {id, text}, in the order of the signals
//	                             ◄── ended {id, process, done}, with the output where it is small
//	fetch {id}                   ──►
//	                             ◄── output {id, process, done}, with the output
//	forget {id}                  ──► the outcome is journalled
//	peek {id, from, most}        ──►
//	                             ◄── peeked {id, text, parts}, in the order of the peeks
//	pools {wanted}               ──► all that there are to be
//	                             ◄── pools {standings, notes}, of all, when something has changed
//	withdraw {id}                ──► refused follows, unless a process was asked for it
//
// The runner knows a job from the moment when it reads the start until it reads the forget,
// whichever worker is connected.
//
// A message is its length, four bytes with the lowest first, and its body: the kind, then the
// fields in the order of codec.go. The output stands behind the message of an end: stdout, then
// stderr, as they are, so that no copy of a large one is made on the way.

// ResultLost is the result of an outcome that nobody can tell: the job was started, or may have been.
// The reason says why. It is kept until it is forgotten, as any outcome, and sent only of jobs of
// pools.
const ResultLost = "lost"

// Version changes when an old worker or runner would misunderstand a new one.
const Version = 2

// Kind says what a message is.
type Kind uint8

// The kinds, by the numbers that stand for them in a message.
const (
	Hello Kind = iota + 1
	Environment
	Start
	Started
	Refused
	Signal
	Signalled
	Ended
	Fetch
	Output
	Forget
	Peek   // only to a runner that has said that it understands it
	Peeked // only as the answer to one

	// Only between two sides that understand pools.
	Pools    // of the worker: which it wants; of the runner: how they stand
	Recycle  // of a worker of 853d0e5: its wish stands in pools as well
	Withdraw // a start is not wanted any more that waits for a process still
)

// ID tells one start of one job from all others.
type ID struct {
	Job     int64
	Attempt int
	Token   string // of the job's claim
}

// Job is a job that a runner has.
type Job struct {
	ID      ID
	Started journal.Started
	Limit   Limit
}

// Message is a message of any kind; each kind has its own fields.
type Message struct {
	Kind Kind
	ID   ID // all but hello, environment and pools

	Version  int    // hello
	Instance string // hello of the runner: its name; of the worker: the word elapsed
	Jobs     []Job  // hello of the runner; of the worker: what else it understands

	Argv      []string      // start
	Dir       string        // start
	MaxOutput int           // start
	Limit     Limit         // start
	Env       []string      // environment
	Pool      string        // start: the target whose pool runs it; "": none does
	Vars      []string      // start, of a pool: what the process is told of it, "JOBD_NAME=value"
	Account   *proc.Account // start, of no pool; nil: the runner's own. Only to a runner that has said that it understands it

	Wanted    []Pool     // pools of the worker
	Standings []Standing // pools of the runner
	Notes     []Note     // pools of the runner: lines for the worker's log

	Started journal.Started // started, ended and output
	Text    string          // refused, signalled and peeked: why not; "" where it was done
	Class   Class           // refused
	Signo   int             // signal
	Done    journal.Done    // ended and output
	Later   bool            // ended: the output does not follow, it has to be fetched
	Peek    *Glance         // peek and peeked
}

// Glance is a look at what a job has written so far.
type Glance struct {
	From  [2]int64 // peek: of stdout and stderr, the first byte wanted; below 0: so far before the newest one
	Most  int      // peek: bytes of each
	Parts [2]Part  // peeked: of stdout and stderr
}

// Part is a piece of an output stream.
type Part struct {
	At    int64  // where it begins: behind From, where what is there was not kept
	Bytes []byte // as the job wrote them
	Size  int64  // of the whole stream so far
}

// CheckHello fails where a peer's first message is none, or is of a version that names starts otherwise.
func (m *Message) CheckHello() error {
	if m.Kind != Hello || m.Version != Version || !m.says(wordTokens) {
		return errOtherVersion
	}
	return nil
}

var errOtherVersion = errors.New("worker and runner have incompatible versions: " +
	"start the former version of jobd again until its jobs have ended, then upgrade")

// lengthBytes is how many bytes a message's length takes.
const lengthBytes = 4

// ErrMalformed is among the causes of an error about bytes that no peer of this version sends.
var ErrMalformed = errors.New("malformed message")

// Class says what a start was refused for.
type Class int64

// The classes, by the numbers that stand for them in a message.
const (
	Program      Class = iota + 1 // the program can't be executed
	Short                         // something was missing that comes back by itself
	AlreadyKnown                  // this start was asked for before
)

// SaidAlready is the text of a refusal of the class AlreadyKnown.
const SaidAlready = "it was started already"

// shortages are the system's errors about something that comes back by itself: processes and
// memory, descriptors, and a program's file that nobody writes to.
var shortages = []error{
	syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EINTR, syscall.ETXTBSY,
}

// ClassOf is the class of a start that failed with err.
func ClassOf(err error) Class {
	if slices.ContainsFunc(shortages, func(short error) bool { return errors.Is(err, short) }) {
		return Short
	}
	return Program
}

// Pool is the processes that a worker wants ready for a target.
type Pool struct {
	Target  string        `json:"target"`
	Mode    string        `json:"mode"` // fork or pool
	Argv    []string      `json:"argv"`
	Dir     string        `json:"dir,omitempty"`
	Env     []string      `json:"env,omitempty"`
	Account *proc.Account `json:"account,omitempty"` // as in a start
	Slots   int           `json:"slots"`

	// Where one of these is 0 there is no such limit. Durations are nanoseconds.
	MaxJobs     int           `json:"max_jobs,omitempty"`
	MaxAge      time.Duration `json:"max_age,omitempty"`
	MaxMemory   int64         `json:"max_memory,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"`
	BootTimeout time.Duration `json:"boot_timeout,omitempty"`
	Watch       bool          `json:"watch,omitempty"`

	// Wish tells the last wish that its processes be replaced from others; 0: there was none. Why is
	// its reason.
	Wish int64  `json:"wish,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Standing tells how a pool stands.
type Standing struct {
	Target    string           `json:"target"`
	Mode      string           `json:"mode"`
	Processes int              `json:"processes"`
	Booting   int              `json:"booting"`
	Ready     int              `json:"ready"`
	Busy      int              `json:"busy"`
	Boots     int64            `json:"boots"`
	Jobs      int64            `json:"jobs"`
	Recycled  map[string]int64 `json:"recycled,omitempty"` // processes that were replaced, by why
	Unready   string           `json:"unready,omitempty"`  // why none gets ready; "" where nothing is wrong
	Failing   string           `json:"failing,omitempty"`  // why no new one gets ready, while others work
	Since     int64            `json:"since,omitempty"`    // since when, unix milliseconds
	Wish      int64            `json:"wish"`               // the last one that was taken up
	Old       int              `json:"old,omitempty"`      // processes from before somebody wanted all replaced

	Stranger   string `json:"stranger,omitempty"`    // the last one that answered in a process's name; "" where nobody did
	StrangerAt int64  `json:"stranger_at,omitempty"` // when, unix milliseconds
}

// Note is something about a pool that people should know.
type Note struct {
	Level  slog.Level `json:"level"`
	Target string     `json:"target"`
	Pid    int        `json:"pid,omitempty"`
	Job    int64      `json:"job,omitempty"`
	Text   string     `json:"text"`
}
