package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"jobd/journal"
	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

const (
	noop        = "/bin/true"
	concurrency = 10
	jobs        = 3000                  // drained at once
	singles     = 300                   // run by hand, one after the other
	appending   = 2 * time.Second       // for each number of appenders
	look        = 20 * time.Millisecond // how often the table is looked at while it drains
	mib         = float64(1 << 20)      // resident memory is given in these
	millisecond = float64(time.Millisecond)
)

func measure(p *program) []result {
	raw := rawRate(p)
	results := []result{{"fork, exec and wait, 10 at once", raw, "jobs/s"}}
	results = append(results, worker(p, raw)...)
	for _, appenders := range []int{1, 64} {
		name := fmt.Sprintf("journal, %d at once", appenders)
		results = append(results, result{name, appendRate(p, appenders), "appends/s"})
	}
	return results
}

// rawRate is how many no-op processes a second this machine starts, captures and reaps.
func rawRate(p *program) float64 {
	var next atomic.Int64
	begun := time.Now()
	atOnce(concurrency, func() {
		for next.Add(1) <= jobs {
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(noop)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				p.Logf("%s: %v", noop, err)
			}
		}
	})
	return jobs / time.Since(begun).Seconds()
}

// worker measures a real jobd under a real master, on a real server.
func worker(p *program, raw float64) []result {
	server, err := dbserver.Start(p.Context(), dbserver.Options{Durable: true})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { server.Close() })
	db := harness.NewDatabaseOn(p, server)
	master := harness.StartMaster(p)
	daemon := db.Worker(p, "bench", noop+" {id}", map[string]int{"a": concurrency}).
		With(harness.MasterOf(master), harness.Settings{"log_level_console": "warn"}).StartWorker(p)
	client := harness.Dial(p, daemon.Addr)
	idle := []result{
		{"jobd-master, resident", float64(harness.Memory(p, master.Pid)) / mib, "MiB"},
		{"jobd, resident when idle", float64(harness.Memory(p, daemon.Pid)) / mib, "MiB"},
	}

	drained := drainRate(p, db, client)
	p50, p99 := latency(p, db, client)
	return append([]result{
		{fmt.Sprintf("%d waiting no-op jobs, 10 at once", jobs), drained, "jobs/s"},
		{"ratio to fork, exec and wait", drained / raw, ""},
		{"run-manual, one at a time, p50", p50, "ms"},
		{"run-manual, one at a time, p99", p99, "ms"},
	}, append(idle,
		result{"jobd, resident at most", float64(harness.MemoryPeak(p, daemon.Pid)) / mib, "MiB"},
		result{"its runner, resident at most", float64(harness.MemoryPeak(p, daemon.Runner(p))) / mib, "MiB"},
	)...)
}

// drainRate is how many jobs a second go from waiting to done, from the poll to the last row.
func drainRate(p *program, db *harness.Database, client *harness.Wire) float64 {
	db.InsertMany(p, jobs, "a", "waiting")
	begun := time.Now()
	client.Ask(p, "poll", nil)
	again := time.NewTicker(look)
	defer again.Stop()
	for db.Count(p, "status = 'done'") < jobs {
		<-again.C
		if time.Since(begun) > 2*time.Minute {
			p.Fatalf("only %d of %d jobs are done after 2 minutes", db.Count(p, "status = 'done'"), jobs)
		}
	}
	took := time.Since(begun)
	if ok := db.Count(p, "result = 'ok'"); ok != jobs {
		p.Fatalf("%d of %d jobs are ok", ok, jobs)
	}
	return jobs / took.Seconds()
}

// latency is how long a client waits for one job, in milliseconds.
func latency(p *program, db *harness.Database, client *harness.Wire) (p50, p99 float64) {
	var took []time.Duration
	for i := range singles {
		id := int64(jobs + i + 1)
		db.Insert(p, id, "a", "manual")
		var answer harness.Jobs
		begun := time.Now()
		client.Ask(p, "run-manual", map[string]any{"ids": []int64{id}}).Decode(p, &answer)
		took = append(took, time.Since(begun))
		if job := answer.Jobs[fmt.Sprint(id)]; job.Result != "ok" {
			p.Fatalf("job %d: %s", id, job)
		}
	}
	slices.Sort(took)
	return float64(took[singles/2]) / millisecond, float64(took[singles*99/100]) / millisecond
}

// appendRate is how many durable appends a second the journal acknowledges.
func appendRate(p *program, appenders int) float64 {
	j, err := journal.Open(p.Context(), journal.Config{Dir: p.TempDir()})
	if err != nil {
		p.Fatal(err)
	}
	var job, done atomic.Int64
	var once sync.Once
	var failed error
	begun := time.Now()
	atOnce(appenders, func() {
		for time.Since(begun) < appending {
			draft := journal.Draft{Job: job.Add(1), Payload: journal.Accepted{Target: "a", Token: "@abcdefghi"}}
			if _, err := j.Append(draft); err != nil {
				once.Do(func() { failed = err })
				return
			}
			done.Add(1)
		}
	})
	rate := float64(done.Load()) / time.Since(begun).Seconds()
	if err := j.Close(); err != nil && failed == nil {
		failed = err
	}
	if failed != nil {
		p.Fatal(failed)
	}
	return rate
}

// atOnce calls f in n goroutines and waits for all of them.
func atOnce(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}
