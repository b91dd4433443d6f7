package torture

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// matrix gathers what was counted, fault by fault.
type matrix struct {
	mu    sync.Mutex
	lines []line
}

// line is one fault and what became of the jobs.
type line struct {
	fault string // begins with a number that groups it with others
	runs  int    // how often the fault was made
	tally
	up   []time.Duration // how long a worker took to answer again, each time
	note string
}

func (l line) number() (n int) {
	_, _ = fmt.Sscan(l.fault, &n) // 0 where there is none
	return n
}

// tally counts jobs.
type tally struct {
	jobs    int
	lost    int // not at their end
	doubled int // started more than once in one attempt of one claim
	unknown int // reported as outcome unknown
}

func (m *matrix) add(l line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, l)
}

func (m *matrix) print(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lines) == 0 {
		return
	}
	slices.SortStableFunc(m.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.number(), b.number()), cmp.Compare(a.fault, b.fault))
	})
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\truns\tjobs\tlost\tdoubled\tunknown\tup again (median, most)\t")
	for _, l := range m.lines {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", l.fault, l.runs, l.jobs, l.lost, l.doubled, l.unknown, middle(l.up), l.note)
	}
	table.Flush()
}

// middle is the median and the longest of some times.
func middle(times []time.Duration) string {
	if len(times) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(times))
	return fmt.Sprintf("%s, %s", sorted[len(sorted)/2].Round(time.Millisecond), sorted[len(sorted)-1].Round(time.Millisecond))
}
