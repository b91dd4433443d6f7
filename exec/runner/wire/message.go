package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
// fields in the order of connection.go. The output stands behind the message of an end: stdout, then
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

// The bytes of a hello are those of commit 853d0e5 and before, so that a running upgrade from it, and the
// way back, find each other: a word is sent as an entry in the list of jobs, with the id 0, which no
// job has, and the word in its boot id. "elapsed" stands where the runner's hello has the instance. All but the last word say
// what both sides understand; a runner answers with those that the worker has said.
//
// "build" names the program's file. A runner of another build is used until it has no jobs, and left
// then. Behind this word a runner names its process.
const (
	wordElapsed = "elapsed"
	wordClasses = "classes"
	wordPeeks   = "peeks"
	wordTokens  = "tokens"
	wordPools   = "pools"
	wordBuild   = "build "
	wordPID     = "pid "

	wordUsage = "usage" // what jobs used stands behind the token of their ends

	// A runner says it that may start processes of other accounts.
	wordAccounts = "accounts"
)

func word(text string) Job { return Job{Started: journal.Started{BootID: text}} }

// build names the file that this process executes.
var build = wordBuild + fileOf("/proc/self/exe")

// fileOf names a file, whoever touches it: an upgrade puts another file in its place, and no file gets
// the number of one that a process executes.
func fileOf(path string) string {
	var file unix.Stat_t
	_ = unix.Stat(path, &file) // without it all are alike
	return fmt.Sprintf("%d.%d", file.Dev, file.Ino)
}

// WorkerHello is how a worker of this version begins.
func WorkerHello() Message {
	return Message{
		Kind: Hello, Version: Version, Instance: wordElapsed,
		Jobs: []Job{word(wordClasses), word(wordPeeks), word(wordTokens), word(wordPools), word(wordUsage), word(wordAccounts), word(build)},
	}
}

// RunnerWords is what a runner of this version adds to the list of jobs in its hello, for a worker
// that sent this one.
func (m *Message) RunnerWords() (words []Job) {
	for _, text := range []string{wordPeeks, wordTokens, wordPools, wordAccounts} {
		if m.says(text) && (text != wordAccounts || len(proc.MissingCapabilities()) == 0) {
			words = append(words, word(text))
		}
	}
	if slices.ContainsFunc(m.Jobs, func(j Job) bool { return j.IsWord() && strings.HasPrefix(j.Started.BootID, wordBuild) }) {
		words = append(words, word(build), word(fmt.Sprint(wordPID, os.Getpid())))
	}
	return words
}

// IsWord tells that an entry in the list of jobs stands for a word.
func (j *Job) IsWord() bool { return j.ID == ID{} }

func (m *Message) says(text string) bool { return slices.Contains(m.Jobs, word(text)) }

// PID is the process of the runner that sent this hello; 0 where it does not say.
func (m *Message) PID() (pid int) {
	for _, j := range m.Jobs {
		if text, ok := strings.CutPrefix(j.Started.BootID, wordPID); ok && j.IsWord() {
			pid, _ = strconv.Atoi(text)
		}
	}
	return pid
}

// TakesAccounts tells whether the runner that sent this hello may start processes of other accounts.
func (m *Message) TakesAccounts() bool { return m.says(wordAccounts) }

// TakesUsage tells whether the worker that sent this hello understands what jobs used.
func (m *Message) TakesUsage() bool { return m.says(wordUsage) }

// IsOfThisBuild tells whether the side that sent this hello executes the same file.
func (m *Message) IsOfThisBuild() bool { return m.says(build) }

// What the two sides share in the journal's folder, which is the runner's working folder.
const (
	// SocketFile is the socket on which the runner listens.
	SocketFile = "runner.sock"
	// EndedFile lists the instances of the runners that ended in order, one a line: with nothing
	// left of what they were asked to start. One that is not listed was killed, or the machine was.
	EndedFile = "runner.ended"
)

// SocketDescriptor is the descriptor at which a new runner finds its socket.
const SocketDescriptor = 3

// LockFile is the journal's lock, which a worker holds as long as it lives.
const LockFile = "lock"

// NameOf names a runner: text is its alone, the rest is which process it is.
func NameOf(text string, pid int, startTime uint64) string {
	return fmt.Sprintf("%s.%d.%d", text, pid, startTime)
}

// ProcessOf is which process a runner is, by its name. It fails for names that builds before 1.1.0 gave.
func ProcessOf(name string) (pid int, startTime uint64, ok bool) {
	if fields := strings.Split(name, "."); len(fields) == 3 {
		pid, _ = strconv.Atoi(fields[1])
		startTime, _ = strconv.ParseUint(fields[2], 10, 64)
	}
	return pid, startTime, pid > 0
}

// Peer is the process at the other end of a connection, as the kernel names it: the one that has
// connected, or the one that listens. It fails where that is of another user. The folder and the
// socket's mode keep those out, too.
func Peer(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("check peer: %w", err)
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, fmt.Errorf("check peer: %w", err)
	}
	if peerErr != nil {
		return 0, fmt.Errorf("check peer: %w", peerErr)
	}
	if int(peer.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("refused: the peer, process %d, is of user %d", peer.Pid, peer.Uid)
	}
	return int(peer.Pid), nil
}

// Limit is for how long a process may run.
type Limit struct {
	Timeout time.Duration // then its group gets SIGTERM; 0: there is no limit
	Kill    time.Duration // how much later it gets SIGKILL
}

// deadline is the variable by which a job is told when it gets SIGTERM, in seconds since 1970.
const deadline = "JOBD_DEADLINE="

// Vars gives the variables of a job that begins now. It may have waited since they were made.
func (l Limit) Vars(vars []string, now time.Time) []string {
	i := slices.IndexFunc(vars, func(v string) bool { return strings.HasPrefix(v, deadline) })
	if i < 0 || l.Timeout <= 0 {
		return vars
	}
	vars = slices.Clone(vars)
	vars[i] = deadline + strconv.FormatInt(now.Add(l.Timeout).Unix(), 10)
	return vars
}

// Overrun is what was done to a process that has run for longer than it may. The runner decides by
// it, and, for a process whose runner can't, the worker. The zero value is that of a process that
// has no limit.
type Overrun struct {
	limit Limit
	due   int64 // the uptime at which the next signal is sent; never: none is
	sent  int   // how many steps were taken: SIGTERM, SIGKILL
}

// never is an uptime that does not come.
const never = math.MaxInt64

// From gives the limit of a process that was started at an uptime.
func (l Limit) From(started int64) Overrun {
	if l.Timeout <= 0 {
		return Overrun{}
	}
	return Overrun{limit: l, due: later(started, l.Timeout)}
}

// later is an uptime and a time behind it, which may be longer than any clock lasts.
func later(at int64, by time.Duration) int64 {
	if int64(by) > never-at {
		return never
	}
	return at + int64(by)
}

// Due is the uptime at which the runner sends the next signal, if it ever does.
func (o *Overrun) Due() (at int64, ever bool) {
	return o.due, o.limit.Timeout > 0 && o.due != never
}

// Next gives the signals to send now. A process that is stopped must go on to act on a SIGTERM. The
// time until SIGKILL counts from here: a job whose SIGTERM was late, because the host or the runner
// stood still, has no less of it.
func (o *Overrun) Next(now int64) []unix.Signal {
	if o.sent++; o.sent == 1 {
		o.due = later(now, o.limit.Kill)
		return []unix.Signal{unix.SIGTERM, unix.SIGCONT}
	}
	o.due = never
	return []unix.Signal{unix.SIGKILL}
}

// Happened tells whether the process got a signal because of its limit.
func (o *Overrun) Happened() bool { return o.sent > 0 }

// Mark makes an outcome that of a process which got a signal because of its limit: a failure,
// whatever its exit code.
func (o *Overrun) Mark(done *journal.Done) {
	if !o.Happened() {
		return
	}
	done.Result = "fail"
	done.Timeout = int64((o.limit.Timeout-1)/time.Second) + 1
	note := fmt.Sprintf("ended after its timeout of %s, with SIGTERM", o.limit.Timeout)
	if o.sent > 1 {
		note += fmt.Sprintf(" and, %s later, SIGKILL", o.limit.Kill)
	}
	if done.Note != "" {
		note += "; " + done.Note
	}
	done.Note = note
}
