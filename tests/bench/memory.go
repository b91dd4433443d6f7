package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"jobd/tests/harness"
)

// residents is what a worker and its runner have in memory, in MB.
type residents struct {
	p              *program
	worker, runner int
}

func (p *program) residents(d *harness.Daemon) residents { return residents{p, d.Pid, d.Runner(p)} }

// now is what is resident of both, added up. The collector makes it rise and fall.
func (r residents) now() float64 {
	return medianOf(func() int64 { return harness.Memory(r.p, r.worker) + harness.Memory(r.p, r.runner) })
}

// once is the same, but for the program, which both have in memory and which is there once.
func (r residents) once() float64 {
	return medianOf(func() int64 {
		own := harness.MemoryOwn(r.p, r.worker) + harness.MemoryOwn(r.p, r.runner)
		return own + max(harness.MemoryOfFiles(r.p, r.worker), harness.MemoryOfFiles(r.p, r.runner))
	})
}

// medianOf is the median of some looks, in MB.
func medianOf(look func() int64) float64 {
	var looks []float64
	for range 9 {
		looks = append(looks, float64(look())/megabyte)
		<-time.After(50 * time.Millisecond)
	}
	return median(looks)
}

// most is what they ever had, added up.
func (r residents) most() float64 {
	return float64(harness.MemoryPeak(r.p, r.worker)+harness.MemoryPeak(r.p, r.runner)) / megabyte
}

// memoryAfterMany is what a worker needs after many jobs.
func memoryAfterMany(p *program) []reading {
	const half = 50_000
	s := newSite(p)
	d := s.worker("bench", launcher, map[string]int{"a": concurrency})
	client := harness.Dial(p, d.Addr)
	memory := p.residents(d)
	idle := memory.once()
	poll := func() { client.Ask(p, "poll", nil) }
	s.drainRate(half, "a", poll)
	middle := memory.once()
	s.drainRate(half, "a", poll)
	end := memory.once()
	return []reading{against(end, idle), against(end, middle), against(memory.now(), end)}
}

// runningAtOnce is what many running jobs cost a worker, and how fast it answers meanwhile.
func runningAtOnce(p *program) []reading {
	const running = 1000
	s := newSite(p)
	d := s.worker("bench", "/bin/sleep 600", map[string]int{"a": running}, harness.Settings{"shutdown_timeout": "1"})
	p.Cleanup(func() { d.Crash(p) }) // nobody waits for a thousand jobs to be told
	client := harness.Dial(p, d.Addr)
	memory := p.residents(d)
	idle, idleAnswer := memory.now(), answerTime(p, client)
	s.insert(running, "a", "waiting")
	client.Ask(p, "poll", nil)
	s.AwaitCount(p, running, "status = 'running'")
	return []reading{against(memory.now(), idle), against(answerTime(p, client), idleAnswer)}
}

// answerTime is how long a client waits for the status, p99.
func answerTime(p *program, client *harness.Wire) float64 {
	var times []float64
	for range 200 {
		times = append(times, took(func() { client.Ask(p, "status", nil) }))
	}
	return percentile(times, 99)
}

const (
	writers    = 64
	written    = 16 << 20 // bytes, of each of them
	keptOutput = 1 << 20  // bytes of each; the default
)

// output is jobs that all write a lot at once: how fast they get rid of it beside as many that write to cat, and what
// memory the worker and its runner take. They are allowed what they have when idle, what is to
// be kept of each output, and the room that the worker takes for a few of those on their way.
func output(p *program) []reading {
	s := newSite(p)
	bell := newBell(p, 0)
	write := fmt.Sprintf("head -c %d /dev/zero", written)
	script := harness.Script(p, write+"; "+bell.script+" $1")
	d := s.worker("bench", script+" {id}", map[string]int{"a": writers})
	client := harness.Dial(p, d.Addr)
	memory := p.residents(d)
	const onTheWay = 24<<20 + 4*keptOutput
	allowed := memory.now() + float64(writers*keptOutput+onTheWay)/megabyte
	byCat := harness.Script(p, "{ "+write+"; "+bell.script+" $1; } | cat > /dev/null")
	const megabytes = float64(writers) * written / megabyte
	speed := paired(7, func() float64 {
		return megabytes * rate(1, func() { startAll(p, byCat); awaitAll(p, bell) })
	}, func() float64 {
		s.insert(writers, "a", "waiting")
		speed := megabytes * rate(1, func() { client.Ask(p, "poll", nil); awaitAll(p, bell) })
		s.awaitDone()
		return speed
	})
	return []reading{speed, against(memory.most(), allowed)}
}

// startAll starts a script as often as there are writers.
func startAll(p *program, script string) {
	for range writers {
		cmd := exec.Command(script, "1")
		p.must(cmd.Start())
		go func() { _ = cmd.Wait() }()
	}
}

func awaitAll(p *program, bell *bell) {
	for range writers {
		bell.await(p)
	}
}

// member is what the system tells of a process.
type member struct {
	parent int
	used   time.Duration // by it, and by the children whose ends it has seen
}

// members is all processes there are, by their numbers.
func members(p *program) map[int]member {
	all := map[int]member{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	p.must(err)
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // a program's name may hold anything
		fields := strings.Fields(rest)
		number := func(n int) int { // the n-th field, as proc(5) counts
			value, _ := strconv.Atoi(fields[n-3])
			return value
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		all[pid] = member{number(4), time.Duration(number(14)+number(15)+number(16)+number(17)) * 10 * time.Millisecond}
	}
	return all
}

// familyTime is the processor time of processes and of all that come from them, in hundredths of a second.
func familyTime(p *program, roots ...int) (used time.Duration) {
	all := members(p)
	ours := map[int]bool{}
	for _, root := range roots {
		ours[root] = true
	}
	for pid, m := range all {
		line := []int{pid}
		for at := m.parent; at > 1 && !ours[line[len(line)-1]]; at = all[at].parent {
			line = append(line, at)
		}
		if ours[line[len(line)-1]] {
			used += m.used
		}
	}
	return used
}
