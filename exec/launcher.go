package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/board"
	"jobd/exec/runner/proc"
	"jobd/journal"
)

// Launcher is the command that runs a job.
type Launcher struct {
	Mode    Mode          // how it runs jobs; "": in a process of its own for each
	Words   []string      // the command; {id} in them stands for the job's id
	Dir     string        // where it runs; "": where the worker does
	Env     []string      // all of its environment, "NAME=value"
	Account *proc.Account // whose rights its processes have; nil: the worker's
	Keep    Keep          // of modes that keep processes
	Service Service       // of modes that are requests
}

// placeholder stands for the job's id in the launcher's words.
const placeholder = "{id}"

// spec is what to start for one job, told more by its environment. Only ids, which are integers, are
// put into the words, and no shell reads them (pitfall 38).
func (l Launcher) spec(id int64, attempt int, more []string) (Spec, error) {
	argv := make([]string, len(l.Words))
	for i, word := range l.Words {
		argv[i] = strings.ReplaceAll(word, placeholder, strconv.FormatInt(id, 10))
	}
	env := append(slices.Clip(l.Env), more...)
	path, err := l.find(argv[0])
	if err != nil {
		return Spec{}, err
	}
	return Spec{
		Job: id, Attempt: attempt, Argv: append([]string{path}, argv[1:]...), Dir: l.Dir, Env: env, Account: l.Account,
	}, nil
}

// find resolves a command without a slash in the PATH that the job will see. What a shell would take for
// an assignment is no command, and its value may be a secret.
func (l Launcher) find(command string) (path string, err error) {
	name, _, assigns := strings.Cut(command, "=")
	if strings.Contains(name, "/") {
		return command, nil
	}
	err = l.Account.Look(func() error {
		for _, folder := range filepath.SplitList(l.variable("PATH")) {
			path = filepath.Join(folder, command)
			if info, err := os.Stat(l.at(path)); err == nil && info.Mode().IsRegular() && proc.Executable(l.at(path)) {
				return nil
			}
		}
		if assigns {
			name += "=…"
		}
		return &NotStartedError{Why: name + ": not found in PATH"}
	})
	return path, err
}

func (l Launcher) variable(name string) string {
	for _, variable := range l.Env {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// LaunchersOf are the commands, word by word, of targets whose terms have a launcher of their own;
// nil where there is none.
func LaunchersOf(terms map[string]Terms) map[string][]string {
	var all map[string][]string
	for name, of := range terms {
		if of.Launcher != nil {
			if all == nil {
				all = map[string][]string{}
			}
			all[name] = of.Launcher.Words
		}
	}
	return all
}

// environment is what the launcher of one start is told beside its own environment. A job that is not
// retried, has no timeout, and whose row says nothing of time, is told of nothing, unless it was
// started before and nobody knows how that ended. Callers must hold w.mu.
func (w *Worker) environment(b *board.Board, s board.Start, now time.Time) (env []string) {
	tell := func(name string, value int64) { env = append(env, name+"="+strconv.FormatInt(value, 10)) }
	claim := s.Claim()
	counts := claim.Plan != nil && w.Again || w.Terms[s.Target()].Attempts > 0
	if counts || s.Recovered() {
		tell("JOBD_ATTEMPT", int64(s.Attempt()))
	}
	if s.Recovered() {
		tell("JOBD_RECOVERED", 1)
	}
	if counts {
		tell("JOBD_MAX_ATTEMPTS", int64(b.MostAttempts(s.Job)))
	}
	if claim.PlannedAt != 0 && (claim.From == journal.RowDelayed || claim.Plan != nil && claim.Plan.Schedule != "") {
		tell("JOBD_PLANNED", claim.PlannedAt)
	}
	if timeout, _ := s.Limits(); timeout > 0 {
		tell("JOBD_DEADLINE", now.Add(timeout).Unix())
	}
	return env
}

// Check looks whether the launcher can be executed, and says what is wrong with it. It executes
// nothing: a fault that only an execution shows passes, and the first start reports it. It does not
// look at a service, which may come and go at any moment: the first connection reports it.
func (l Launcher) Check() error {
	if l.Mode.Requests() {
		return nil
	}
	path, err := l.find(l.Words[0])
	if err != nil {
		return err
	}
	return l.Account.Look(func() error {
		if l.Dir != "" {
			if err := checkFolder(l.Dir); err != nil {
				return fmt.Errorf("working folder: %w", err)
			}
		}
		if err := proc.Check(l.Dir, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case !proc.Executable(dir):
		return fmt.Errorf("%s: %w", dir, unix.EACCES)
	}
	return nil
}

// at is where a path leads that the job's process executes.
func (l Launcher) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.Dir, path)
}

// Mode is how a launcher runs jobs.
type Mode string

// The modes, by the words of the configuration. What a job is in each of them, and what is known of
// it after a crash, is in docs/executors.md.
const (
	ModeProcess Mode = "process" // a process of its own
	ModeFork    Mode = "fork"    // a fork of a process that has loaded the application
	ModeSpare   Mode = "spare"   // in older journals: a process that was started ahead, for one job
	ModePool    Mode = "pool"    // a turn of a process that stays
	ModeHTTP    Mode = "http"    // a request to a service
	ModeFastCGI Mode = "fastcgi" // a request to a FastCGI server
	ModeGearman Mode = "gearman" // a job of a Gearman worker that is connected
)

// Pooled tells whether the runner keeps pool processes for the jobs.
func (m Mode) Pooled() bool { return slices.Contains([]Mode{ModeFork, ModeSpare, ModePool}, m) }

// Requests tells whether a job is a request that the worker itself makes.
func (m Mode) Requests() bool { return m == ModeHTTP || m == ModeFastCGI || m == ModeGearman }

// Executor is the mode as events name it: what every job was before there were modes has no name.
func (m Mode) Executor() string {
	if m == ModeProcess {
		return ""
	}
	return string(m)
}

// modeOf is the mode that events name so.
func modeOf(executor string) Mode {
	if executor == "" {
		return ModeProcess
	}
	return Mode(executor)
}

// Shares tells whether a job's process was there before the job.
func (m Mode) Shares() bool { return m == ModePool || m == ModeSpare }

// Keep is how long pool processes of a target live. Where something is 0 there is no such limit.
type Keep struct {
	MaxJobs     int           // jobs after which a process is replaced
	MaxAge      time.Duration // age at which it is
	MaxMemory   int64         // resident bytes beyond which it is
	IdleTimeout time.Duration // how long a process may be without a job before it ends
	BootTimeout time.Duration // how long it may take until it is ready
	Watch       bool          // processes are replaced when the launcher's files change
}

// Pool is the processes that the runner keeps ready for a target.
type Pool struct {
	Target  string
	Mode    Mode
	Argv    []string
	Dir     string
	Env     []string
	Account *proc.Account
	Slots   int // jobs that may run at once, each in a process of its own
	Keep    Keep
}

// PoolStanding tells how a pool stands, or a service to which the jobs of a target are requests.
type PoolStanding struct {
	Target    string           `json:"target"`
	Mode      Mode             `json:"mode"`
	Slots     int              `json:"slots"`              // jobs that may run at once
	Address   string           `json:"address,omitempty"`  // of a service: where requests are sent
	Processes int              `json:"processes"`          // there are, booting or not
	Booting   int              `json:"booting"`            // of them are not ready yet
	Ready     int              `json:"ready"`              // of them wait for a job
	Busy      int              `json:"busy"`               // of them have one
	Boots     int64            `json:"boots"`              // processes that got ready since the runner has the pool
	Jobs      int64            `json:"jobs"`               // jobs that were passed to one
	Recycled  map[string]int64 `json:"recycled,omitempty"` // processes that were replaced, by why
	// Old is how many processes the runner still has to replace, because somebody asked for it or for
	// another reason that concerns all; nil: the runner can't tell.
	Old *int `json:"old,omitempty"`

	Unready string `json:"unready,omitempty"` // why no job can be started; "": nothing is wrong
	Failing string `json:"failing,omitempty"` // why no new one gets ready, while others work
	Since   int64  `json:"since,omitempty"`   // since when, unix milliseconds

	// Stranger tells of the last process that wrote to a pool process's answers and was another one, and
	// what it wrote; "": none did. StrangerAt is when, unix milliseconds.
	Stranger   string `json:"stranger,omitempty"`
	StrangerAt int64  `json:"strangerAt,omitempty"`
}

// Service is what a job's request is sent to.
type Service struct {
	Mode    Mode
	URL     string        // of http: where to post; {id} in it stands for the job's id
	Address string        // of fastcgi: the server's, a path of a unix socket or host:port
	Script  string        // of fastcgi: the file that the server runs
	Secret  string        // of http: signs requests; "": they are not signed
	Dial    time.Duration // how long a connection may take
}
