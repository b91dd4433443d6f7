package host

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// poolProcess is a process that was started ahead, for jobs. All of it is the reactor's.
type poolProcess struct {
	pool    *pool
	mode    string        // the pool may be of another by now
	account *proc.Account // as above
	version int           // of the pool, when it was started
	stamp   string        // of its files then
	started journal.Started
	born    int64
	pidfd   int
	orders  pair   // descriptor 3. Its end is here, too, so that what is unread can be told
	answers pair   // descriptor 4. Its end is here, too: so that ours has no end of file, which would say nothing
	speaker int    // the process that said ready, whose answers count; 0: none has
	output  [2]int // what is read of 1 and 2; -1: it is at its end, or somebody else's
	list    int    // the kernel's list of its children; -1: it was not needed yet

	state    poolState
	turn     *job    // while it is asked or busy
	since    int64   // the uptime when it came into its state
	deadline int64   // when the state has lasted for too long; 0: it may last
	lasts    int64   // from since to deadline
	pressed  bool    // it had a SIGTERM, since it did not end when it was told to
	parts    parts   // the beginnings of the next lines
	strange  int64   // the uptime when a line was told last that somebody else had written
	wrote    capture // takes what is written while there is no job
	jobs     int
	due      string // why the pool replaces it; "": it does not
	spent    bool   // it takes no more jobs
	why      string // why it was killed
	wrong    bool   // it was, because it did what it must not
	helpers  []int  // the children that it had when it got ready
}

// poolState is how a process stands.
type poolState int

const (
	booting poolState = iota // it has not said ready
	idle                     // it waits for a job
	asked                    // it was asked for one, and has not answered
	busy                     // it has one, or its child has
	leaving                  // it was told to end, or killed, or has ended
)

// phase is what may happen in a state.
type phase struct {
	expects string                                   // what it may say; # stands for the job's id
	says    map[string]func(*poolProcess, answer)    // what follows from that
	late    string                                   // what is wrong where the state has lasted for too long, %s; "": nothing
	gone    func(k *poolProcess, j *job, how string) // it has ended
}

// phasesOf are the states of a process:
//
//	booting ─ready─► idle ─► asked ─started─► busy ─exit, ended─► idle
//	                  ▲        └─refused─┐
//	                  └──────────────────┘
//
// The pool kills it for anything else it says. Each state ends with the process.
var phasesOf map[string]map[poolState]phase

func init() { // the functions use the table
	phases := func(started, ended, over string, gone func(*poolProcess, *job, string)) map[poolState]phase {
		return map[poolState]phase{
			booting: {
				"ready",
				map[string]func(*poolProcess, answer){"ready": (*poolProcess).ready},
				`it was not ready within %s: the line "ready" on descriptor 4 did not come`, (*poolProcess).goneBooting,
			},
			idle: {expects: "nothing", gone: (*poolProcess).goneIdle},
			asked: {started + " or refused #", map[string]func(*poolProcess, answer){
				"started": (*poolProcess).begins, "refused": (*poolProcess).refuses,
			}, "it did not answer within %s when it was asked for a job", (*poolProcess).goneAsked},
			busy: {
				ended,
				map[string]func(*poolProcess, answer){over: (*poolProcess).ends},
				"the process that it forked for the job has ended, and it has not reported that within %s", gone,
			},
			leaving: {expects: "nothing", gone: (*poolProcess).goneLeaving},
		}
	}
	phasesOf = map[string]map[poolState]phase{
		"fork": phases("started # PID", "ended # STATUS", "ended", (*poolProcess).goneWithoutChild),
		"pool": phases("started #", "exit # CODE", "exit", (*poolProcess).goneWithJob),
	}
}

func (k *poolProcess) phase() phase { return phasesOf[k.mode][k.state] }

// enter changes the state. It may last until a deadline, if there is one.
func (k *poolProcess) enter(state poolState, lasts time.Duration) {
	k.state, k.since, k.lasts, k.deadline = state, proc.Uptime(), int64(lasts), 0
	if lasts > 0 {
		k.deadline = k.since + k.lasts
		k.pool.pools.reactor.ringAt(k.deadline)
	}
}

// standstill is how long after a deadline we come at most, however busy this host is. Where it is
// more we stood still, as with SIGSTOP, or while the host was asleep or moved: then the deadline says
// nothing of the process, which may have stood still with us.
const standstill = int64(time.Second)

// expire acts on a deadline that is over. What the process has said by then counts.
func (k *poolProcess) expire(now int64) {
	late := now - k.deadline
	if k.deadline == 0 || late < 0 {
		return
	}
	if late > standstill {
		k.deadline = now + k.lasts
		return
	}
	since := k.since
	k.pool.pools.hear(k)
	if k.since == since && k.deadline != 0 {
		k.deadline = 0
		if k.state == leaving {
			k.press()
		} else {
			k.unfit(fmt.Sprintf(k.phase().late, time.Duration(k.lasts)))
		}
	}
}

// name is how notes call it.
func (k *poolProcess) name() string { return fmt.Sprintf("process %d", k.started.Pid) }

// serves tells whether a process is ready for a job, or will be after the one that it has.
func (k *poolProcess) serves() bool {
	return k.state == idle || (k.state == asked || k.state == busy) && k.why == ""
}

// able tells whether a process is ready for a job, or will be soon.
func (k *poolProcess) able() bool { return k.serves() && !k.spent }

// stays tells whether a process serves and is not to be replaced.
func (k *poolProcess) stays() bool { return k.serves() && k.due == "" }

// replace has it replaced; with spent it takes no other job.
func (k *poolProcess) replace(due string, spent bool) {
	if k.due == "" || spent && !k.spent {
		k.due = due
	}
	k.spent, k.pool.dirty = k.spent || spent, true
}

// quit lets a process that has no job end.
func (k *poolProcess) quit() {
	_, _ = unix.Write(k.orders.ours, []byte("quit\n")) // the end of the file says the same
	unix.Close(k.orders.ours)
	k.orders.ours = -1
	k.enter(leaving, k.pool.pools.times.quit)
}

// press ends a process that was told to end and does not.
func (k *poolProcess) press() {
	quit := k.pool.pools.times.quit
	if !k.pressed {
		k.pressed = true
		_ = unix.Kill(-k.started.Pid, unix.SIGTERM)
		_ = unix.Kill(-k.started.Pid, unix.SIGCONT)
		k.enter(leaving, quit)
		return
	}
	why := fmt.Sprintf("it did not end when told to, and %s after SIGTERM it still ran", quit)
	k.pool.pools.warn(k.pool, k, 0, fmt.Sprintf("%s is killed: %s", k.name(), why))
	k.kill(why)
}

// kill ends a process, and what there is of its group, at once. What becomes of its job is known when
// it is gone.
func (k *poolProcess) kill(why string) {
	if k.why == "" {
		k.why = why
	}
	_ = unix.Kill(-k.started.Pid, unix.SIGKILL) // it is not reaped
	_ = unix.Kill(k.started.Pid, unix.SIGKILL)  // it may have left its group
	if k.state == idle {
		k.enter(leaving, 0)
	}
	k.deadline = 0
}

// unfit kills a process that does what it must not, and says so.
func (k *poolProcess) unfit(why string) {
	if k.why != "" {
		return
	}
	k.wrong = true
	if k.state != booting { // that it does not get ready is told anyway
		var job int64
		if k.turn != nil {
			job = k.turn.id.Job
		}
		k.pool.pools.warn(k.pool, k, job, fmt.Sprintf("%s is killed: %s", k.name(), why))
		k.pool.recycled["killed"]++
		k.due = ""
	}
	k.kill(why)
	k.pool.dirty = true
}

// keep starts a pool process.
func (s *spawner) keep(def *wire.Pool) (_ *poolProcess, err error) {
	k := &poolProcess{mode: def.Mode, account: def.Account, pidfd: -1, orders: noPair, answers: noPair, output: [2]int{-1, -1}, list: -1, wrote: newExcerpt()}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if k.orders, err = newSockets(); err != nil {
		return nil, err
	}
	if k.answers, err = newSockets(); err != nil {
		return nil, err
	}
	// The kernel names the writer of what is read from now on.
	if err := unix.SetsockoptInt(k.answers.ours, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return nil, err
	}
	p, err := s.fork(spec{argv: def.Argv, dir: def.Dir, env: def.Env, account: def.Account}, k.orders.its, k.answers.its)
	if err != nil {
		return nil, err
	}
	k.started, k.born, k.pidfd, k.output = p.started, p.born, p.pidfd, p.output
	return k, nil
}

// close closes what is left of its descriptors. They are out of the epoll.
func (k *poolProcess) close() {
	closeAll(k.pidfd, k.orders.ours, k.orders.its, k.answers.ours, k.answers.its, k.output[0], k.output[1], k.list)
	k.pidfd, k.orders, k.answers, k.output, k.list = -1, noPair, noPair, [2]int{-1, -1}, -1
}
