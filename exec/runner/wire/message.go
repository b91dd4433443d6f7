package wire

import (
	"errors"
	"fmt"

	"jobd/journal"
)

// The worker begins with hello. The runner answers with its own, in which it lists the jobs that it
// still has from former workers.
//
//	worker                           runner
//	hello {version, words}       ──►
//	                             ◄── hello {version, instance, jobs}
//	environment {env}            ──► for the starts that follow
//	start {id, argv, dir, limits}──►
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
//	recycle {targets, text,      ──► and what it was told so is not done again when it stands
//	        wanted}                  in pools, as after a connection was lost
//	withdraw {id}                ──► refused follows, unless a process was asked for it
//
// The runner knows a job from the moment when it reads the start until it reads the forget,
// whichever worker is connected.
//
// A message is its length, four bytes with the lowest first, and its body: the kind, then the
// fields in the order of encode.go. The output stands behind the message of an end: stdout, then
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
	Pools    // of the worker: which there are to be; of the runner: how they stand
	Recycle  // processes of pools are to be replaced
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
	ID   ID // all but hello, environment, pools and recycle

	Version  int    // hello
	Instance string // hello of the runner: its name; of the worker: the word elapsed
	Jobs     []Job  // hello of the runner; of the worker: what else it understands
	Tokens   bool   // tokens and limits are sent, too

	Argv      []string // start
	Dir       string   // start
	MaxOutput int      // start
	Limit     Limit    // start
	Env       []string // environment
	Pool      string   // start: the target whose pool is to run it; "": none is
	Vars      []string // start, of a pool: what the process is told of it, "JOBD_NAME=value"

	Wanted    []Pool     // pools of the worker; recycle: the wish of each target, nothing else
	Standings []Standing // pools of the runner
	Notes     []Note     // pools of the runner: what is to be in the worker's log
	Targets   []string   // recycle

	Started journal.Started // started, ended and output
	Text    string          // refused, signalled and peeked: why not; "" where it was done; recycle: why
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

// CheckHello fails where a peer's first message is none, or is of another version.
func (m *Message) CheckHello() error {
	if m.Kind != Hello {
		return fmt.Errorf("hello expected, got kind %d", m.Kind)
	}
	if m.Version != Version {
		return fmt.Errorf("the other side speaks version %d, this one %d", m.Version, Version)
	}
	return nil
}

// CheckTokens fails where a peer of this version names starts without the tokens of their claims.
func (m *Message) CheckTokens() error {
	if m.Kind == Hello && m.Version == Version && !m.understandsTokens() {
		return errTooOld
	}
	return nil
}

// errTooOld is that of CheckTokens.
var errTooOld = errors.New("worker and runner are of versions that don't understand each other: " +
	"start the early version of jobd again until its jobs have ended, then upgrade")

// lengthBytes is how many bytes a message's length takes.
const lengthBytes = 4

// ErrMalformed is among the causes of an error about bytes that no peer of this version sends.
var ErrMalformed = errors.New("malformed message")
