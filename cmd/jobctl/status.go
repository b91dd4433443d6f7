package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/net/api"
)

// The answers to status.
type (
	workerStatus = api.WorkerStatus
	masterStatus = api.FleetStatus[*workerStatus]
)

func (p *program) listTargets() *ffcli.Command {
	return command("list-targets", "list-targets", "worker: its targets", func(ctx context.Context, args []string) error {
		if err := p.onlyWorker("list-targets"); err != nil {
			return err
		}
		return p.showWorker(ctx, "list-targets", args, func(s workerStatus) {
			p.print(targetTable(s))
		})
	})
}

func (p *program) listWorkers() *ffcli.Command {
	return command("list-workers", "list-workers", "master: its workers, and their targets", func(ctx context.Context, args []string) error {
		if err := p.onlyMaster("list-workers", "list-targets"); err != nil {
			return err
		}
		return p.showMaster(ctx, "list-workers", args, func(s masterStatus) {
			p.print(workerTable(s))
		})
	})
}

func (p *program) memoryUsage() *ffcli.Command {
	return command("memory-usage", "memory-usage", "what memory the daemon uses; a master also asks its workers", func(ctx context.Context, args []string) error {
		if p.config.master {
			return p.showMaster(ctx, "memory-usage", args, func(s masterStatus) { p.print(masterMemoryTable(s)) })
		}
		return p.showWorker(ctx, "memory-usage", args, func(s workerStatus) {
			t := memoryTable()
			addMemory(&t, "worker", s.Memory)
			p.print(t)
		})
	})
}

// showWorker asks a worker for its status and, unless that was printed as JSON, shows it.
func (p *program) showWorker(ctx context.Context, name string, args []string, show func(workerStatus)) error {
	if len(args) > 0 {
		return wrongUsage("%s: takes no arguments, got %q", name, args)
	}
	var status workerStatus
	if err := p.askInto(ctx, api.Status.Name, nil, &status); err != nil || p.json() {
		return err
	}
	show(status)
	return nil
}

// showMaster does the same with a master, which asks its workers. Those that did not answer are an
// error.
func (p *program) showMaster(ctx context.Context, name string, args []string, show func(masterStatus)) error {
	if len(args) > 0 {
		return wrongUsage("%s: takes no arguments, got %q", name, args)
	}
	var status masterStatus
	if err := p.askInto(ctx, api.MasterStatus.Name, api.Polling{Workers: true}, &status); err != nil {
		return err
	}
	if !p.json() {
		show(status)
	}
	return errors.Join(silentWorkers(status)...)
}

func targetTable(s workerStatus) table {
	t := table{head: []string{"TARGET", "CONCURRENCY", "LENGTH", "PAUSED"}, none: "no targets", elastic: "TARGET"}
	for _, name := range slices.Sorted(maps.Keys(s.Targets)) {
		target := s.Targets[name]
		t.add(line(name), line(target.Concurrency), line(target.Length), line(yesOrNo(target.Paused)))
	}
	return t
}

// workerTable has a line for each target of a worker.
func workerTable(s masterStatus) table {
	t := table{head: []string{"NAME", "ADDRESS", "TARGET", "CONCURRENCY", "LENGTH", "PAUSED", "ERROR"}, none: "no workers", elastic: "NAME|ADDRESS|TARGET|ERROR"}
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
			for _, row := range targetTable(*status).rows {
				targets, concurrency = append(targets, row.cells[0]...), append(concurrency, row.cells[1]...)
				length, paused = append(length, row.cells[2]...), append(paused, row.cells[3]...)
			}
		}
		address := net.JoinHostPort(worker.RemoteAddr, strconv.Itoa(worker.RemotePort))
		t.add(line(worker.Name), line(address), targets, concurrency, length, paused, line(worker.StatusError))
	}
	return t
}

func masterMemoryTable(s masterStatus) table {
	t := memoryTable()
	addMemory(&t, "master", s.Memory)
	for _, worker := range s.Workers {
		if worker.Status != nil {
			addMemory(&t, worker.Name, worker.Status.Memory)
		}
	}
	return t
}

// owed is how many events the table does not show yet.
func owed(j *api.JournalStatus) int64 { return int64(j.Events) - int64(min(j.Mirrored, j.Events)) }

// onDisk is how many bytes a journal takes.
func onDisk(j *api.JournalStatus) uint64 { return uint64(max(0, j.Bytes)) }

func memoryTable() table {
	return table{head: []string{"NAME", "RESIDENT", "HEAP TOTAL", "HEAP USED", "EXTERNAL", "ARRAY BUFFERS"}, elastic: "NAME"}
}

func addMemory(t *table, name string, m api.MemoryUsage) {
	row := []cell{line(name)}
	for _, size := range []uint64{m.RSS, m.HeapTotal, m.HeapUsed, m.External, m.ArrayBuffers} {
		row = append(row, line(humanize.IBytes(size)))
	}
	t.add(row...)
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
