package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

// A max_memory that is less than what a process has as soon as it is ready is told, once, before it
// has had any job; and so is one that is less than what it has after its first, whatever that was.
// Jobs run all the same. With a larger one nothing is told any more.
func TestAMaxMemoryThatIsTooSmallIsTold(t *testing.T) {
	t.Parallel()
	const grown = 64 << 20
	for name, test := range map[string]struct {
		modes []string
		most  int64
		jobs  bool // it is told after jobs only
		why   string
	}{
		"as soon as it is ready": {[]string{"fork", "pool"}, 1 << 20, false, "KiB as soon as it is ready, and may have 1024 KiB"},
		"after the first job":    {[]string{"pool"}, 32 << 20, true, "KiB after its first job, and so had the one before, and may have 32768 KiB"},
	} {
		for _, mode := range test.modes {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
				p := pooled(mode, 1)
				p.MaxMemory = test.most
				b.pools(p)
				do := work(mode, "printf $$", "print getppid()")
				if test.jobs {
					do = fmt.Sprintf(`DO=printf $$; test -n "$big" || big=$(head -c %d /dev/zero | tr '\0' x)`, grown)
				} else {
					b.stands("it is told", func(s wire.Standing) bool { return s.Tight != "" && s.Jobs == 0 })
				}
				processes := map[string]bool{}
				for job := int64(1); job <= 4; job++ {
					processes[string(b.run(job, do).Stdout.Kept)] = true
				}
				s := b.stands("it is told", func(s wire.Standing) bool { return s.Tight != "" && s.Recycled["max_memory"] >= 3 })
				if len(processes) != 4 || s.TightSince == 0 || !strings.Contains(s.Tight, test.why) {
					t.Errorf("standing %+v, processes %v", s, processes)
				}
				b.mu.Lock()
				said := 0
				for _, n := range b.notes {
					if strings.Contains(n.Text, "max_memory of target mail is too small") {
						said++
					}
				}
				b.mu.Unlock()
				if said != 1 {
					t.Errorf("it was noted %d times", said)
				}
				p.MaxMemory = 1 << 40
				b.pools(p)
				b.stands("it is enough", func(s wire.Standing) bool { return s.Tight == "" && s.TightSince == 0 })
			})
		}
	}
}

// One process that is too large after its first job is what max_memory is for, and so is each that is
// after its second.
func TestAMaxMemoryThatIsNotTooSmall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	p.MaxMemory = 32 << 20
	b.pools(p)
	large := "DO=big=$(head -c 64000000 /dev/zero | tr '\\0' x)"
	b.run(1, large)
	for job := int64(2); job <= 6; job += 2 {
		b.run(job, "DO=true")
		b.run(job+1, large)
	}
	s := b.stands("they were replaced", func(s wire.Standing) bool { return s.Recycled["max_memory"] == 4 })
	if s.Tight != "" {
		t.Errorf("standing %+v", s)
	}
}
