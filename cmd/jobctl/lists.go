package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// The answers to status.
type (
	workerStatus = api.WorkerStatus
	masterStatus = api.FleetStatus[*workerStatus]
	fleetWorker  = api.FleetWorker[*workerStatus]
)

func (p *program) listTargets() *cmd {
	return command("list-targets", "its targets", func(ctx context.Context, args []string) error {
		return p.showCensus(ctx, func(s *operator.Census) { p.targetTable(s.Workers[0].Value).print() })
	}).of("worker")
}

func (p *program) listWorkers() *cmd {
	return command("list-workers", "its workers, and their targets", func(ctx context.Context, args []string) error {
		return p.showCensus(ctx, func(s *operator.Census) { p.workerTable(s.Master).print() })
	}).of("master")
}

func (p *program) memoryUsage() *cmd {
	return command("memory-usage", "what memory the daemon uses; a master also asks its workers", func(ctx context.Context, args []string) error {
		return p.showCensus(ctx, func(s *operator.Census) { p.memoryTable(s).print() })
	})
}

// showCensus asks a worker, or a master and its workers, how they stand, and shows that, or prints the
// daemon's answer as it came where it is to be JSON. Workers that did not answer are an error.
func (p *program) showCensus(ctx context.Context, show func(s *operator.Census)) error {
	s, err := operator.TakeCensus(ctx, p.daemon())
	if err != nil {
		return err
	}
	if p.json() {
		p.say("%s\n", s.Said)
	} else {
		show(s)
	}
	return s.Silent()
}

func (p *program) targetTable(s *workerStatus) *table {
	t := p.table("no targets", "TARGET", "TARGET", "CONCURRENCY", "LENGTH", "PAUSED")
	for _, name := range slices.Sorted(maps.Keys(s.Targets)) {
		target := s.Targets[name]
		t.add(name, target.Concurrency, target.Length, yesOrNo(target.Paused))
	}
	return t
}

// workerTable has a line for each target of a worker.
func (p *program) workerTable(s *masterStatus) *table {
	t := p.table("no workers", "NAME|ADDRESS|TARGET|ERROR", "NAME", "ADDRESS", "TARGET", "CONCURRENCY", "LENGTH", "PAUSED", "ERROR")
	slices.SortStableFunc(s.Workers, func(a, b fleetWorker) int { return strings.Compare(a.Name, b.Name) })
	for _, worker := range s.Workers {
		var targets, concurrency, length, paused cell
		slices.Sort(worker.Targets)
		for _, name := range worker.Targets {
			targets = append(targets, clean(name))
		}
		if worker.TargetsCut > 0 {
			targets = append(targets, fmt.Sprintf("(and %d more)", worker.TargetsCut))
		}
		if status := worker.Status; status != nil {
			targets = nil
			for _, name := range slices.Sorted(maps.Keys(status.Targets)) {
				target := status.Targets[name]
				targets, paused = append(targets, clean(name)), append(paused, yesOrNo(target.Paused))
				concurrency, length = append(concurrency, fmt.Sprint(target.Concurrency)), append(length, fmt.Sprint(target.Length))
			}
		}
		address := net.JoinHostPort(worker.RemoteAddr, strconv.Itoa(worker.RemotePort))
		t.add(worker.Name, address, targets, concurrency, length, paused, worker.StatusError)
	}
	return t
}

// onDisk is how many bytes a journal takes.
func onDisk(j *api.JournalStatus) uint64 { return uint64(max(0, j.Bytes)) }

// memoryTable has a line for each process.
func (p *program) memoryTable(s *operator.Census) *table {
	t := p.table("", "NAME", "NAME", "RESIDENT", "HEAP TOTAL", "HEAP USED", "EXTERNAL", "ARRAY BUFFERS")
	add := func(name string, m api.MemoryUsage) {
		row := []any{name}
		for _, size := range []uint64{m.RSS, m.HeapTotal, m.HeapUsed, m.External, m.ArrayBuffers} {
			row = append(row, humanize.IBytes(size))
		}
		t.add(row...)
	}
	if s.Master != nil {
		add("master", s.Master.Memory)
	}
	for _, w := range s.Workers {
		if w.Value != nil {
			add(cmp.Or(w.From.Name, "worker"), w.Value.Memory)
		}
	}
	return t
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// fleetTable has a line for each worker.
func (p *program) fleetTable(s *operator.Census) *table {
	t := p.table("no workers", "NAME|ADDRESS|-VERSION", "NAME", "ADDRESS", "VERSION", "UP", "DATABASE", "LAG", "SLOTS", "TARGETS")
	for i, w := range s.Workers {
		version, up, database, lag, slots := untold, untold, untold, untold, untold
		targets := len(s.Master.Workers[i].Targets) + s.Master.Workers[i].TargetsCut
		if status := w.Value; w.Err == nil {
			targets, version = len(status.Targets), cmp.Or(status.Version, untold)
			if status.Started > 0 {
				up = p.ago(time.UnixMilli(status.Started))
			}
			if status.Journal != nil {
				lag = fmt.Sprint(operator.Owed(status.Journal))
			}
			used, all := slotsOf(status)
			slots = fmt.Sprintf("%s/%d", untold, all)
			if d := status.Database; d != nil {
				slots, database = fmt.Sprintf("%d/%d", used, all), "reachable"
				if !d.Reachable {
					database = "away " + p.ago(d.Since)
				}
			}
		}
		t.add(w.From.Name, w.From.Address, version, up, database, lag, slots, targets)
	}
	return t
}

// slotsOf are the slots of a worker.
func slotsOf(s *workerStatus) (used, all int) {
	for _, t := range s.Targets {
		used += t.Running
		all += t.Concurrency
	}
	return used, all
}

// paragraph prints lines, if there are any, behind an empty one.
func (p *program) paragraph(lines string) {
	if lines != "" {
		p.say("\n%s", lines)
	}
}

// sumText adds up all workers that tell.
func sumText(s *operator.Census, tallies []operator.Tally) string {
	var lag int64
	for _, w := range s.Workers {
		if w.Err == nil && w.Value.Journal != nil {
			lag += operator.Owed(w.Value.Journal)
		}
	}
	var sum operator.Tally
	for _, t := range tallies {
		sum.Add(t)
	}
	text := fmt.Sprintf("%s, %s; %d of %s in use, %d prefetched",
		screen.Count(len(s.Workers), "worker"), screen.Count(len(tallies), "target"), sum.Running, screen.Count(sum.Slots, "slot"), sum.Prefetched)
	if lag > 0 {
		text += fmt.Sprintf("\nthe table does not show %s yet", screen.Count(int(lag), "event"))
	}
	return text
}

// downText says since when a worker is down.
func (p *program) downText(w api.DownWorker) string {
	return fmt.Sprintf("%s down since %s", clean(w.Name), p.clock(time.UnixMilli(w.Since)))
}

func (p *program) ps() *cmd {
	query := api.RunningQuery{Sort: api.SortAge}
	var target string
	c := command("ps [--target T] [--sort age|cpu|memory]", "running jobs, with their age, processor time and memory", func(ctx context.Context, args []string) error {
		if target != "" {
			query.Targets = []string{target}
		}
		return p.showRunning(ctx, p.daemon(), query)
	})
	c.FlagSet.StringVar(&target, "target", "", "only jobs of this target")
	c.FlagSet.Var(oneOf{value: &query.Sort, allowed: []string{api.SortAge, api.SortCPU, api.SortMemory}}, "sort", "what comes first: the oldest (age), or what uses most cpu or memory (default: age)")
	return c
}

// showRunning asks for what runs, and prints it. Workers that do not tell are an error beside that.
func (p *program) showRunning(ctx context.Context, c *operator.Daemon, query api.RunningQuery) error {
	all, err := operator.Running(ctx, c, query)
	if err != nil {
		return err
	}
	failed := all.Silent
	if failed == nil && len(all.Jobs) == 0 {
		failed = p.unserved(ctx, strings.Join(query.Targets, ""))
	}
	if p.json() {
		p.printJSON(all)
		return failed
	}
	_ = p.runningTable(all, c.Master).end(all.Silent)
	if hidden := all.Total - len(all.Jobs); hidden > 0 {
		fmt.Fprintf(p.err, "jobctl: %s more jobs run; each worker lists %s at most\n",
			humanize.Comma(int64(hidden)), humanize.Comma(api.MostRunning))
	}
	return failed
}

func (p *program) runningTable(all operator.RunningJobs, workers bool) *table {
	limited := slices.ContainsFunc(all.Jobs, func(j operator.RunningJob) bool { return j.Deadline > 0 })
	executed := slices.ContainsFunc(all.Jobs, func(j operator.RunningJob) bool { return j.Executor != "" })
	t := p.table("nothing runs", "TARGET|WORKER|-TRY|-SINCE", "JOB", "TARGET", when(workers, "WORKER"), "PID", "TRY", "SINCE", "ELAPSED", "CPU", "MEMORY",
		when(limited, "LEFT"), when(executed, "EXECUTOR"))
	for _, j := range all.Jobs {
		pid, cpu, memory := "", "", ""
		if j.PID > 0 {
			pid = fmt.Sprint(j.PID)
		}
		if j.CPU != nil {
			cpu = screen.ShortLength(time.Duration(*j.CPU) * time.Millisecond)
		}
		if j.Memory != nil {
			memory = humanize.IBytes(uint64(max(0, *j.Memory)))
		}
		since := time.UnixMilli(j.Since)
		elapsed := p.now().Sub(since)
		if j.Elapsed != nil {
			elapsed = time.Duration(*j.Elapsed) * time.Millisecond
		}
		t.add(j.Job, j.Target, j.Worker, pid, j.Try(), p.clock(since), screen.Length(elapsed),
			cpu, memory, p.leftOf(j.RunningJob), cmp.Or(j.Executor, "process"))
	}
	return t
}

// leftOf is how much longer a job may run; "" where nothing limits that.
func (p *program) leftOf(j api.RunningJob) string {
	if j.Deadline == 0 {
		return ""
	}
	return screen.Length(time.UnixMilli(j.Deadline).Sub(p.now()))
}
