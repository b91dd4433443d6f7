package host

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// keptState is how a kept process stands.
type keptState int

const (
	booting keptState = iota // it has not said ready
	idle                     // it waits for a job
	asked                    // it was asked for one, and has not answered
	busy                     // it has one, or its child has
	leaving                  // it was told to end, or killed, or has ended
)

// kept is a process that is kept for jobs. All of it is the reactor's.
type kept struct {
	pool    *pool
	mode    string // the pool may be of another by now
	version int    // of the pool, when it was started
	defined int    // the same
	place   *place // that it has while it loads
	stamp   string // of its files then
	started journal.Started
	born    int64
	pidfd   int
	orders  pipe   // descriptor 3. Its reader is here so that what is unread can be told
	answers int    // what is read of descriptor 4
	output  [2]int // what is read of 1 and 2; -1: it is at its end, or somebody else's
	list    int    // the kernel's list of its children; -1: it was not needed yet
	killer  int64  // what the killer knew when it was started

	state    keptState
	turn     *child // while it is asked or busy
	line     []byte // the beginning of the next answer
	since    int64  // the uptime when it came into its state
	deadline int64  // when the state has lasted for too long; 0: it may last
	lasts    int64  // from since to deadline
	signals  int    // of those that have a leaving one end
	jobs     int
	due      string       // why it is to be replaced; "": it is not
	spent    bool         // it takes no more jobs
	wrote    excerpt      // before it was ready
	why      string       // why it was killed
	stale    bool         // it was, because another launcher is to be started
	wrong    bool         // it was, because it did what it must not
	last     int64        // the job that it had last
	unclean  int          // killed ones may be writing still that this job has left behind: see awaitLeft
	sought   int          // after so many jobs it was looked for what they have left behind
	soughtAt int64        // the uptime then, or when it was started
	held     bool         // it has no job until that is done
	helpers  map[int]bool // were in its group when it got ready
	closed   string       // which descriptor nobody has open any more; "": somebody has all
	mute     int64        // since when
	ended    int64        // since when it is known that its job's process has ended; 0: it is not
}

// keep starts a process that is to be kept.
func (s *spawner) keep(def *wire.Pool) (*kept, error) {
	k := &kept{mode: def.Mode, pidfd: -1, answers: -1, output: [2]int{-1, -1}, list: -1, killer: s.killer.known.Load()}
	err := s.pipesAndKeep(def, k)
	if err == nil && k.pidfd < 0 {
		err = errors.New("this kernel gives no pidfd, which kept processes need")
		_ = unix.Kill(-k.started.Pid, unix.SIGKILL)
		_, _ = syscall.Wait4(k.started.Pid, nil, 0, nil)
		family.leave(k.started.Pid)
	}
	if err != nil {
		k.close()
		return nil, refusal(spec{argv: def.Argv, dir: def.Dir}, err)
	}
	return k, nil
}

// pipesAndKeep makes the four pipes and the process. Descriptors 3 and 4 need no more room than a
// line takes.
func (s *spawner) pipesAndKeep(def *wire.Pool, k *kept) error {
	k.orders = pipe{-1, -1}
	var ends [4]pipe // orders, answers, stdout, stderr
	for i := range ends {
		p, err := newPipe()
		if err != nil {
			for _, open := range ends[:i] {
				open.close()
			}
			return err
		}
		ends[i] = p
		if i < 2 {
			_, _ = unix.FcntlInt(uintptr(p.reader), unix.F_SETPIPE_SZ, mostLine+1) // it may stay larger
		}
	}
	k.orders, k.answers, k.output = ends[0], ends[1].reader, [2]int{ends[2].reader, ends[3].reader}
	defer func() {
		for _, p := range ends[1:] {
			unix.Close(p.writer)
		}
	}()
	// Of descriptor 3 the process has the end that is read: there it waits, and we never do.
	if err := errors.Join(unix.SetNonblock(k.orders.reader, false), unix.SetNonblock(k.orders.writer, true)); err != nil {
		return err
	}
	return s.forkKept(def, k, ends)
}

func (s *spawner) forkKept(def *wire.Pool, k *kept, ends [4]pipe) error {
	before, pid := proc.Uptime(), 0
	err := proc.WithTimers(proc.UsualTimers, func() (err error) {
		pid, err = family.fork(def.Argv, &syscall.ProcAttr{
			Dir: def.Dir, Env: def.Env,
			Files: []uintptr{
				s.null.Fd(), uintptr(ends[2].writer), uintptr(ends[3].writer),
				uintptr(ends[0].reader), uintptr(ends[1].writer),
			},
			Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: &k.pidfd},
		})
		return err
	})
	if err != nil {
		return err
	}
	k.born = proc.Uptime()
	k.soughtAt = k.born
	k.started = journal.Started{Pid: pid, BootID: s.bootID, StartTime: startedAt(pid, before, k.born)}
	return nil
}

// close closes what is left of its descriptors. They are out of the epoll.
func (k *kept) close() {
	for _, fd := range []int{k.pidfd, k.orders.reader, k.orders.writer, k.answers, k.output[0], k.output[1], k.list} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	k.pidfd, k.orders, k.answers, k.output, k.list = -1, pipe{-1, -1}, -1, [2]int{-1, -1}, -1
}

// enter changes the state. It may last until a deadline, if there is one.
func (k *kept) enter(state keptState, lasts time.Duration) { k.enterAt(proc.Uptime(), state, lasts) }

// enterAt is enter where it is known what time it is.
func (k *kept) enterAt(now int64, state keptState, lasts time.Duration) {
	k.state, k.since, k.deadline = state, now, 0
	if lasts > 0 {
		k.lasts = int64(lasts)
		k.deadline = k.since + k.lasts
		k.pool.pools.wakeAt(k.deadline)
	}
}

// name is how notes call it.
func (k *kept) name() string {
	return fmt.Sprintf("process %d", k.started.Pid)
}

// quit lets a process that has no job end.
func (k *kept) quit() {
	_, _ = unix.Write(k.orders.writer, []byte("quit\n")) // the end of the pipe says the same
	unix.Close(k.orders.writer)
	k.orders.writer = -1
	k.enter(leaving, k.pool.pools.times.quit)
}

// kill ends a process, and what there is of its group, at once.
func (k *kept) kill(why string) {
	if k.why == "" {
		k.why = why
	}
	_ = unix.Kill(-k.started.Pid, unix.SIGKILL) // it is not reaped
	_ = unix.Kill(k.started.Pid, unix.SIGKILL)  // it may have left its group
	k.signals = 2
	k.place.leave()
	if k.state == idle {
		k.enter(leaving, 0)
	}
	k.deadline = 0
}

// press ends a process that was told to end and does not.
func (k *kept) press() {
	k.signals++
	if k.signals == 1 {
		_ = unix.Kill(-k.started.Pid, unix.SIGTERM)
		_ = unix.Kill(-k.started.Pid, unix.SIGCONT)
		k.enter(leaving, k.pool.pools.times.quit)
		return
	}
	why := fmt.Sprintf("it did not end when it was told to, and %s after SIGTERM neither", k.pool.pools.times.quit)
	k.pool.pools.warn(k.pool, k, 0, fmt.Sprintf("%s is killed: %s", k.name(), why))
	k.kill(why)
}

// takeUnread takes an order back that nobody has read a byte of. Nobody else can read it then. The
// process is gone; who has inherited the pipe from it may wait there.
func (k *kept) takeUnread(line int) (whole bool) {
	if pending(k.orders.reader) < line {
		return false
	}
	if unix.SetNonblock(k.orders.reader, true) != nil {
		return false
	}
	b := make([]byte, line+1)
	n, err := unix.Read(k.orders.reader, b)
	return err == nil && n == line
}
