package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"jobd/tests/harness"
)

// manual is how long a client waits for one job, by turns with what a process takes, and with the same process between what
// its row and its journal cost at least.
func manual(p *program) []reading {
	const singles, warm = 300, 20
	s := newSite(p)
	client := harness.Dial(p, s.worker("bench", launcher, map[string]int{"a": concurrency}).Addr)
	first := s.insert(singles+warm, "a", "manual")
	byHand := s.insert(singles+warm, "b", "ignored")
	journal := newYardstick(p, 1)
	var raw, durable, product []float64
	for i := range int64(singles + warm) {
		d := took(func() {
			s.commitTwice(journal, byHand+i, "running")
			p.must(spawn(noop, "1000"))
			s.commitTwice(journal, byHand+i, "done")
		})
		r := took(func() { p.must(spawn(noop, "1000")) }) // as for drain
		m := took(func() { runManual(p, client, first+i) })
		if i >= warm {
			raw, durable, product = append(raw, r), append(durable, d), append(product, m)
		}
	}
	return []reading{against(median(product)-median(raw), median(raw)), against(median(product), median(durable))}
}

// commitTwice commits a row to SQLite, then another status to the server.
func (s *site) commitTwice(journal *yardstick, id int64, status string) {
	journal.commit()
	_, err := s.Admin.Exec("UPDATE jobs SET status = ? WHERE id = ?", status, id)
	s.p.must(err)
}

func runManual(p *program, client *harness.Wire, id int64) {
	var answer harness.Jobs
	client.Ask(p, "run-manual", map[string]any{"ids": []int64{id}}).Decode(p, &answer)
	if job := answer.Jobs[fmt.Sprint(id)]; job.Result != "ok" {
		p.Fatalf("job %d: %s", id, job)
	}
}

// bell is rung by a job that starts.
type bell struct {
	pipe   string // who writes a line into it rings
	script string // rings where its first argument is not below the id that was given
	rung   *bufio.Reader
}

// newBell makes a launcher that rings for ids from one on, and does nothing for the others.
func newBell(p *program, from int64) *bell {
	pipe := filepath.Join(p.TempDir(), "bell")
	p.must(unix.Mkfifo(pipe, 0o600))
	file, err := os.OpenFile(pipe, os.O_RDWR, 0)
	p.must(err)
	p.Cleanup(func() { file.Close() })
	script := harness.Script(p, fmt.Sprintf("if [ $1 -ge %d ]; then echo > %s; fi", from, pipe))
	return &bell{pipe, script, bufio.NewReader(file)}
}

// await waits for one ring.
func (b *bell) await(p *program) {
	_, err := b.rung.ReadString('\n')
	p.must(err)
}

// throttled is a little longer than the master gathers pokes: the first goes at once.
const throttled = 550 * time.Millisecond

// pokeToStart is how long after a client's poke of the master its job starts, beside the same script started by hand.
func pokeToStart(p *program) []reading {
	const times = 20
	s := newSite(p)
	master := s.master()
	bell := newBell(p, 0)
	s.worker("bench", bell.script+" {id}", map[string]int{"a": concurrency}, harness.MasterOf(master))
	harness.AwaitWorkers(p, master, "", 1)
	raw, product := s.starts(times, bell, harness.Dial(p, master.Addr), "a")
	return []reading{against(median(product), median(raw))}
}

// fairness is the same for a target that has nothing, on a worker whose other targets have a backlog.
func fairness(p *program) []reading {
	const times, backlog = 20, 6000
	s := newSite(p)
	master := s.master()
	for _, target := range []string{"busy1", "busy2", "busy3"} {
		s.insert(backlog, target, "waiting")
	}
	bell := newBell(p, 3*backlog+1)
	s.worker("bench", bell.script+" {id}", map[string]int{"busy1": 4, "busy2": 4, "busy3": 4, "idle": 4}, harness.MasterOf(master))
	harness.AwaitWorkers(p, master, "", 1)
	raw, product := s.starts(times, bell, harness.Dial(p, master.Addr), "idle")
	if s.Count(p, "status = 'waiting' AND target LIKE 'busy%'") == 0 {
		p.Fatal("the backlog was gone too early")
	}
	s.Exec(p, "UPDATE jobs SET status = 'ignored' WHERE status = 'waiting'") // nobody waits for the rest
	s.awaitDone()
	return []reading{against(percentile(product, 100), percentile(raw, 100))}
}

// starts gives how many milliseconds the starts of jobs took, by hand and by a poke of the master.
func (s *site) starts(times int, bell *bell, client *harness.Wire, target string) (raw, product []float64) {
	for range times {
		<-time.After(throttled)
		raw = append(raw, took(func() {
			go func() { _ = spawn(bell.script, "999999999") }()
			bell.await(s.p)
		}))
		s.insert(1, target, "waiting")
		product = append(product, took(func() {
			client.Request(s.p, "poke", map[string]any{"targets": []string{target}})
			bell.await(s.p)
		}))
		client.Answer(s.p)
	}
	return raw, product
}

// watched is how long each state is looked at.
const watched = 20 * time.Second

// topOfMany is the processor time a second that a worker with a thousand running jobs and its runner use because somebody looks
// at them with top in a large terminal: in the order of age, and in that of processor time, for which every job is measured.
func topOfMany(p *program) []reading {
	const running = 1000
	s := newSite(p)
	d := s.worker("bench", "/bin/sleep 600", map[string]int{"a": running}, harness.Settings{"shutdown_timeout": "1"})
	p.Cleanup(func() { d.Crash(p) }) // nobody waits for a thousand jobs to be told
	client := harness.Dial(p, d.Addr)
	s.insert(running, "a", "waiting")
	client.Ask(p, "poll", nil)
	s.AwaitCount(p, running, "status = 'running'")
	pids := []int{d.Pid, d.Runner(p)}
	alone := perSecond(p, pids)
	screen := p.top(d)
	screen.await("running jobs: ", "of 1,000")
	byAge := perSecond(p, pids)
	screen.tmux("send-keys", "s")
	screen.await("most processor time first")
	byCPU := perSecond(p, pids)
	return []reading{{value: byAge - alone}, {value: byCPU - alone}, {value: alone}}
}

// perSecond is the milliseconds of processor time that processes use in a second, when they have settled.
func perSecond(p *program, pids []int) float64 {
	<-time.After(5 * time.Second)
	before, begun := used(p, pids), time.Now()
	<-time.After(watched)
	return (used(p, pids) - before) / 1000 / time.Since(begun).Seconds()
}

// screen is a terminal in which top runs.
type screen struct {
	p      *program
	socket string
}

func (p *program) top(d *harness.Daemon) screen {
	host, port, err := net.SplitHostPort(d.Addr)
	p.must(err)
	s := screen{p, filepath.Join(p.TempDir(), "s")}
	s.tmux("new-session", "-d", "-x", "200", "-y", "60",
		fmt.Sprintf("'%s' --host %s --port %s --config %s top", harness.Program(p, "jobctl"), host, port, os.DevNull))
	p.Cleanup(func() { _ = s.command("kill-server").Run() })
	return s
}

func (s screen) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", s.socket, "-f", os.DevNull}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	return cmd
}

func (s screen) tmux(args ...string) string {
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.p.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// await waits until all of these are seen.
func (s screen) await(texts ...string) {
	harness.Until(s.p, func() string {
		shown := s.tmux("capture-pane", "-p")
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return fmt.Sprintf("no %q in\n%s", text, shown)
			}
		}
		return ""
	})
}
