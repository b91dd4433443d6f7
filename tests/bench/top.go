package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"jobd/tests/harness"
)

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
