package host

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// What a job leaves behind ends after each job of a process, not only after its first one: the list
// of its children stays open and is read anew. It goes with the process.
func TestChildrenAreSoughtAfterEachJob(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = 50 * time.Millisecond })
	b.pools(pooled("pool", 1))
	var process string
	for job := int64(1); job <= 6; job++ {
		do := "DO=echo $BASHPID"
		if job%2 == 0 {
			do = "DO=sleep 300 & disown; echo $BASHPID"
		}
		done := b.run(job, do)
		if process == "" {
			process = string(done.Stdout.Kept)
		}
		if done.Result != "ok" || string(done.Stdout.Kept) != process {
			t.Errorf("job %d: %+v in process %s, want %s", job, done, done.Stdout.Kept, process)
		}
		if job%2 == 0 {
			b.noted(fmt.Sprintf("job %d has left it behind", job))
		}
	}
	open := func(pid int) (is bool) {
		list := childList(pid, pid)
		for _, entry := range listed(t, "/proc/self/fd") {
			name, err := os.Readlink("/proc/self/fd/" + entry)
			is = is || err == nil && name == list
		}
		return is
	}
	var pid int
	if _, err := fmt.Sscan(process, &pid); err != nil || !open(pid) {
		t.Fatalf("the list of %q is not open: %v", process, err)
	}
	b.pools()
	b.until("no pool is left", func() bool { return len(b.standings) == 0 })
	b.inReactor(func(ps *pools) {
		if len(ps.kept) != 0 || open(pid) {
			t.Errorf("%d processes are kept, list open: %t", len(ps.kept), open(pid))
		}
	})
}

// listed are the names in a folder.
func listed(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}
