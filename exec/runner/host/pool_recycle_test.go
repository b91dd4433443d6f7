package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

// pid is a job that says which process it runs in, or was forked from.
func pid(mode string) string { return work(mode, "printf $$", "print getppid()") }

// A process is replaced after so many jobs: it never has more. Each job runs once.
func TestProcessesAreReplacedAfterSoManyJobs(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		for _, most := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s %d", mode, most), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				p := pooled(mode, 2)
				p.MaxJobs = most
				b.pools(p)
				jobs := map[string]int{}
				for job := int64(1); job <= 8; job++ {
					done := b.run(job, pid(mode))
					if done.Result != "ok" {
						t.Fatalf("done %+v", done)
					}
					jobs[string(done.Stdout.Kept)]++
				}
				for pid, n := range jobs {
					if n > most {
						t.Errorf("process %s had %d jobs", pid, n)
					}
				}
				b.stands("they were replaced", func(s wire.Standing) bool { return s.Recycled["max_jobs"] >= int64(8/most-2) && s.Jobs == 8 })
			})
		}
	}
}

// Processes are replaced when they are too old, too large, or other ones are wanted; and without a
// pause: where all are ready, one is ready at any time.
func TestProcessesAreReplaced(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(b *bench, p *wire.Pool){
		"max_age":                            func(_ *bench, p *wire.Pool) { p.MaxAge = 300 * time.Millisecond },
		"reload, with another configuration": func(b *bench, p *wire.Pool) { p.Env = append(p.Env, "MORE=1"); b.pools(*p) },
		"reload":                             func(b *bench, p *wire.Pool) { b.recycle(p, "reload") },
		"recycle":                            func(b *bench, p *wire.Pool) { b.recycle(p, "Somebody asked for it") },
		"watch": func(_ *bench, p *wire.Pool) {
			if err := os.WriteFile(p.Argv[0]+".new", []byte("#!/bin/bash\n# new\n"+shellLoop), 0o700); err != nil {
				panic(err)
			}
			if err := os.Rename(p.Argv[0]+".new", p.Argv[0]); err != nil {
				panic(err)
			}
		},
	} {
		for _, mode := range []string{"fork", "pool"} {
			t.Run(reason+" "+mode, func(t *testing.T) {
				t.Parallel()
				b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
				p := pooled(mode, 2)
				counted, _, _ := strings.Cut(reason, ",")
				if reason == "watch" {
					file := filepath.Join(t.TempDir(), "launcher")
					if err := os.WriteFile(file, []byte("#!"+p.Argv[0]+"\n"+p.Argv[2]), 0o700); err != nil {
						t.Fatal(err)
					}
					p.Argv, p.Watch = []string{file}, true
				}
				if reason == "max_age" {
					change(b, &p)
				}
				b.pools(p)
				b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 2 })
				b.mu.Lock()
				b.standing = func(s wire.Standing) {
					if s.Ready+s.Busy < 2 || s.Processes > 2*2+1 {
						t.Errorf("standing %+v", s)
					}
				}
				b.mu.Unlock()
				if reason != "max_age" {
					change(b, &p)
				}
				b.stands("both were replaced", func(s wire.Standing) bool { return s.Recycled[counted] >= 2 && s.Ready == 2 && s.Boots >= 4 })
			})
		}
	}
}

// A process that has become too large takes no more jobs.
func TestAProcessThatIsTooLargeIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	p.MaxMemory = 20 << 20
	b.pools(p)
	first := b.run(1, `DO=printf $$`)
	if done := b.run(2, `DO=printf $$; big=$(head -c 30000000 /dev/zero | tr '\0' x)`); string(done.Stdout.Kept) != string(first.Stdout.Kept) {
		t.Errorf("it was replaced before it was too large: %s, then %s", first.Stdout.Kept, done.Stdout.Kept)
	}
	if done := b.run(3, `DO=printf $$`); string(done.Stdout.Kept) == string(first.Stdout.Kept) {
		t.Error("it has another job")
	}
	b.noted("more than max_memory")
	b.stands("it was replaced", func(s wire.Standing) bool { return s.Recycled["max_memory"] == 1 })
}

// Processes that nobody needs end, and come back when somebody does.
func TestProcessesThatNobodyNeedsEnd(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
	p := pooled("pool", 2)
	p.IdleTimeout = 50 * time.Millisecond
	b.pools(p)
	b.stands("all have ended", func(s wire.Standing) bool { return s.Processes == 0 && s.Recycled["idle_timeout"] == 2 })
	if done := b.run(1, "DO=echo out"); string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
	b.stands("it has ended again", func(s wire.Standing) bool { return s.Processes == 0 && s.Recycled["idle_timeout"] == 3 })
}

// A new version is deployed while jobs run: each job runs once, in the old one or in the new one,
// and after a while in the new one only.
func TestANewVersionUnderLoad(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled(mode, 2)
			version := func(v string) wire.Pool {
				p.Env = append(os.Environ(), "VERSION="+v)
				return p
			}
			b.pools(version("one"))
			b.stands("the first version is ready", func(s wire.Standing) bool { return s.Ready > 0 })
			order := ""
			for job := int64(1); !strings.HasSuffix(order, "two two two two "); job += 2 {
				if job == 9 {
					b.pools(version("two"))
				}
				if job > 2000 {
					t.Fatalf("the old version goes on: %s", order)
				}
				b.start(job, work(mode, "echo $VERSION", `print "$ENV{VERSION}\n"`))
				b.start(job+1, work(mode, "echo $VERSION", `print "$ENV{VERSION}\n"`))
				for _, id := range []int64{job, job + 1} {
					done := b.done(id)
					said := string(done.Stdout.Kept)
					if done.Result != "ok" || said != "one\n" && said != "two\n" || job < 9 && said == "two\n" {
						t.Fatalf("job %d: %+v, %q", id, done, said)
					}
					order += strings.TrimSpace(said) + " "
				}
			}
		})
	}
}

// A new version that does not get ready does not take the old one's place.
func TestABrokenVersionDoesNotReplaceTheOldOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 2)
	b.pools(p)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 2 })
	broken := p
	broken.Argv = []string{"/bin/sh", "-c", "echo broken; exit 1"}
	b.pools(broken)
	b.noted("it wrote: broken")
	if done := b.run(1, "DO=echo old"); string(done.Stdout.Kept) != "old\n" {
		t.Errorf("done %+v", done)
	}
	b.stands("the old ones are there", func(s wire.Standing) bool { return s.Ready == 2 && s.Unready == "" && s.Jobs == 1 })
}

// Fewer slots, and a pool that is wanted no more: what has a job ends when it has done it.
func TestAPoolThatIsWantedNoMoreEndsWithItsJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 3)
	b.pools(p)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 3 })
	p.Slots = 1
	b.pools(p)
	b.stands("one is left", func(s wire.Standing) bool { return s.Processes == 1 })
	at := gate(t)
	b.start(1, "DO=read line <"+at+"; echo out")
	b.of(1, wire.Started)
	b.pools()
	b.start(2)
	if m := b.of(2, wire.Refused); m.Class != wire.Short {
		t.Errorf("refused %+v", m)
	}
	openGate(t, at)
	if done := b.done(1); done.Result != "ok" || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
	b.until("it is gone", func() bool { return len(b.standings) == 0 })
}
