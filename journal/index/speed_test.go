package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
)

type fakeLog struct {
	n    uint64
	make func(seq uint64) journal.Event
}

func (f *fakeLog) View(look func(*journal.State)) { look(&journal.State{Seq: f.n}) }
func (f *fakeLog) Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error) {
	if after >= f.n {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var ev []journal.Event
	for s := after + 1; s <= f.n && len(ev) < limit; s++ {
		ev = append(ev, f.make(s))
	}
	return ev, nil
}

func TestSpeed(t *testing.T) {
	jobs, _ := strconv.Atoi(os.Getenv("JOBS"))
	if jobs == 0 {
		t.Skip()
	}
	dir := os.Getenv("IDIR")
	if dir == "" {
		dir = t.TempDir()
	}
	l, err := eventlog.Open(t.Context(), eventlog.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	words := make([]string, 20000)
	for i := range words {
		words[i] = fmt.Sprintf("w%x", i*7919)
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 5, 19999)
	base := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	f := &fakeLog{n: uint64(jobs * 4), make: func(s uint64) journal.Event {
		job := int64((s-1)/4) + 1
		e := journal.Event{Seq: s, Job: job, Time: base.Add(time.Duration(s) * 25 * time.Microsecond)}
		switch (s - 1) % 4 {
		case 0:
			e.Payload = journal.Accepted{Target: fmt.Sprint("target", job%20), Token: "t"}
		case 1:
			e.Payload = journal.Running{Attempt: 1}
		case 2:
			e.Payload = journal.Started{Pid: 1}
		case 3:
			code, result := 0, "ok"
			if job%50 == 0 {
				code, result = 1+int(job/50%5), "fail"
			}
			out := make([]byte, 0, 400)
			for len(out) < 200 {
				out = append(append(out, words[zipf.Uint64()]...), ' ')
			}
			e.Payload = journal.Done{Result: result, Code: &code, Stdout: journal.Output{Kept: out}}
		}
		return e
	}}
	x := New(Config{Dir: dir, Log: f, Logger: nil})
	db, n, err := open(t.Context(), x.path)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{Index: x, db: db, noted: n}
	defer w.close()
	if n.seq == 0 {
		if err := w.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		made := time.Duration(0)
		for w.seq < f.n {
			b := time.Now()
			ev, _ := f.Next(t.Context(), w.seq, batchEvents)
			made += time.Since(b)
			if err := w.add(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(begun) - made
		t.Logf("%d jobs in %v: %.0f a second", jobs, took, float64(jobs)/took.Seconds())
	}
	info, _ := os.Stat(x.path)
	t.Logf("%.0f bytes a job", float64(info.Size())/float64(jobs))
	x.readers = pool(x.path, "ro", 2)
	measure := func(name string, q Query) {
		q.Most = 50
		var all []time.Duration
		found, more := 0, false
		for range 30 {
			b := time.Now()
			js, next, err := x.Jobs(t.Context(), q)
			if err != nil {
				t.Fatal(name, err)
			}
			all = append(all, time.Since(b))
			found, more = len(js), next != Key{}
		}
		sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
		t.Logf("%-22s p50 %8v p97 %8v found %d more %v", name, all[15].Round(10*time.Microsecond), all[29].Round(10*time.Microsecond), found, more)
	}
	measure("all", Query{})
	measure("target", Query{Targets: []string{"target3"}})
	measure("target fail", Query{Targets: []string{"target10"}, Result: "fail"})
	measure("20 targets", Query{Targets: []string{"target1", "target2", "target3", "target4", "target5", "target6", "target7", "target8", "target9", "target10", "target11", "target12"}})
	measure("fail", Query{Result: "fail"})
	measure("code 3", Query{Codes: []int{3}})
	measure("code 3 target", Query{Codes: []int{3}, Targets: []string{"target10"}})
	measure("code 3 target none", Query{Codes: []int{3}, Targets: []string{"target11"}})
	measure("ignored none", Query{Status: "ignored"})
	measure("middle since", Query{Since: base.Add(time.Duration(f.n) * 12 * time.Microsecond), Until: base.Add(time.Duration(f.n) * 13 * time.Microsecond)})
	measure("frequent word", Query{Text: words[0]})
	measure("two frequent", Query{Text: words[0] + " " + words[3]})
	measure("rare word", Query{Text: words[19990]})
	measure("two rare", Query{Text: words[15000] + " " + words[16000]})
	measure("frequent+rare", Query{Text: words[0] + " " + words[16000]})
	measure("frequent, target none", Query{Text: words[0], Targets: []string{"nobody"}})
	measure("no such", Query{Text: "nosuchword"})
	measure("prefix w1*", Query{Text: "w1*"})
	measure("prefix w12*", Query{Text: "w12*"})
	measure("prefix w123*", Query{Text: "w123*"})
	measure("prefix two", Query{Text: "w123* w1*"})
	measure("code 0 target", Query{Codes: []int{0}, Targets: []string{"target11"}})
}
