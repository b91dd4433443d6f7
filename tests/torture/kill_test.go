package torture

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// atRandom is a moment to strike at.
func atRandom(most time.Duration) <-chan time.Time { return time.After(rand.N(most)) }

// shortJob lasts long enough that there is always one that is struck in the middle.
const shortJob = `sleep 0.03`

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

// The primary of three members of a MySQL group is killed under load, over and over; each time the
// members that are left make another one the primary, and a router leads there. The members know
// what was committed: nothing is lost, and nothing runs twice.
func TestGroupReplicationPrimaryKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") == "" {
		t.Skip("only MySQL has Group Replication: make test-group")
	}
	group := must.Get(dbserver.StartGroup(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		check.Do(t, dbserver.CloseGroup(group))
	})
	router := harness.NewLink(t, group[0].Addr())
	targets := map[string]int{"a": 4, "b": 1}
	s := newSiteOn(t, group[0], shortJob, targets, polling, router.ToDatabase())
	other := s.worker(t, "other").With(harness.Targets(targets), polling, router.ToDatabase())
	s.start(t)
	other.StartWorker(t)
	primary, next, kills := 0, 1, size(2, 5)
	var elected, on []time.Duration
	for range kills {
		before := s.jobs
		s.insert(t, size(300, 1000), "a")
		awaitProgress(t, s, before+size(100, 300))
		begun := time.Now()
		must.Do(t, group[primary].Kill())
		router.Lead(group[next].Addr()) // where it is read-only until the group has noticed
		must.Do(t, group[next].AwaitPrimary(t.Context()))
		elected = append(elected, time.Since(begun))
		s.moveTo(t, group[next])
		s.insert(t, 1, "b") // a target for which nothing was claimed before
		harness.Until(t, func() string {
			if s.Count(t, "target = 'b' AND status <> 'done'") > 0 {
				return "the new job was not run"
			}
			return ""
		})
		on = append(on, time.Since(begun))
		must.Do(t, group[primary].Restart(t.Context()))
		must.Do(t, group[primary].Join(t.Context()))
		primary, next = next, s.heir(t, group, next)
	}
	s.awaitDone(t)
	journals := []string{s.settings["journal_dir"], other["journal_dir"]}
	suite.matrix.add(line{
		fault: "6 primary of a MySQL group killed", runs: kills, tally: s.known(t, journals...),
		note: fmt.Sprintf("another one is elected after %s; new ones are claimed %s after", spread(elected), spread(on)),
	})
}

// heir is the member that is to follow the primary: of the two others the one with more weight.
func (s *site) heir(t *testing.T, group [3]*dbserver.Server, primary int) (next int) {
	t.Helper()
	most := -1
	for i, member := range group {
		var weight int
		must.Do(t, member.Admin().QueryRowContext(t.Context(), "SELECT @@group_replication_member_weight").Scan(&weight))
		if i != primary && weight > most {
			next, most = i, weight
		}
	}
	return next
}

// moveTo has the application use another server.
func (s *site) moveTo(t *testing.T, server *dbserver.Server) {
	t.Helper()
	db := must.Get(server.Open(s.Name))(t)
	t.Cleanup(func() { db.Close() })
	s.Admin = db
}

// spread is the least and the most of some times.
func spread(times []time.Duration) string {
	least, most := times[0], times[0]
	for _, each := range times {
		least, most = min(least, each), max(most, each)
	}
	return fmt.Sprintf("%s to %s", least.Round(100*time.Millisecond), most.Round(100*time.Millisecond))
}

// With launch_offline = run jobs start while the database is away; the worker is killed then, and comes back
// before the database does.
func TestKilledWhileLaunchingOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 4}, polling, harness.Settings{"launch_offline": "run", "prefetch": "40"})
	link := harness.NewLink(t, s.Addr)
	s.settings = s.settings.With(link.ToDatabase())
	kills := size(4, 50)
	for range kills {
		worker, _ := s.start(t)
		s.insert(t, 40, "a")
		awaitProgress(t, s, s.jobs-36)
		link.Away()
		<-atRandom(100 * time.Millisecond)
		worker.Kill(t)
		worker, _ = s.start(t)
		<-atRandom(100 * time.Millisecond)
		link.Back()
		s.awaitDone(t)
		worker.Kill(t)
	}
	suite.matrix.add(line{fault: "4 killed while launching offline", runs: kills, tally: s.known(t)})
}

// A job that kills its worker, and the runner with it, does not do so for ever.
func TestAJobThatKillsItsWorker(t *testing.T) {
	t.Parallel()
	cases := []struct {
		onCrash string
		starts  int
		says    string
	}{
		{"fail", 1, "outcome unknown"},
		{"requeue", 3, "attempt 3 of 3"},
	}
	for _, c := range cases {
		t.Run(c.onCrash, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, `while [ ! -s $gate.worker ]; do sleep 0.01; done; kill -9 $(cat $gate.worker) $PPID; sleep 1`, map[string]int{"a": 1}, harness.Settings{"on_crash": c.onCrash})
			for range c.starts {
				s.writeWorker(t, nil)
				worker := s.launch(t, "jobd")
				if s.jobs == 0 {
					client := harness.Dial(t, worker.Ready(t).Addr)
					s.insert(t, 1, "a")
					client.Ask(t, "poll", nil)
				}
				s.writeWorker(t, fmt.Append(nil, worker.Pid)) // from here on it may be gone
				worker.ExitCode(t)
			}
			s.start(t)
			row := s.AwaitDone(t, 1)
			check.Contains(t, harness.Text(row.Stderr), c.says, "the row does not say …: %s", row)
			started := s.oracle.read(t).starts
			check.Equal(t, len(started), c.starts, "it was started … times: %v", started)
			suite.matrix.add(line{fault: "2 a job kills its worker, on_crash = " + c.onCrash, runs: c.starts, tally: s.audit(t)})
		})
	}
}

// writeWorker writes the file in which a job finds its worker's process id.
func (s *site) writeWorker(t *testing.T, pid []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(s.oracle.gate+".worker", pid, 0o600))
}

// newServer starts a database server of the test's own.
func newServer(t *testing.T) *dbserver.Server {
	t.Helper()
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		check.Do(t, server.Close())
	})
	return server
}

// The server is read-only for a while, as after a failover.
func TestServerReadOnly(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := newSiteOn(t, server, "", map[string]int{"a": 4}, polling)
	s.start(t)
	s.insert(t, size(300, 3000), "a")
	awaitProgress(t, s, s.jobs/3)
	readOnly := func(value int) {
		must.Get(server.Admin().ExecContext(t.Context(), fmt.Sprintf("SET GLOBAL read_only = %d", value)))(t)
	}
	readOnly(1)
	<-time.After(size(3*time.Second, 30*time.Second)) // that is how long it is read-only
	before, begun := s.Count(t, "status = 'done'"), time.Now()
	if before == s.jobs {
		t.Fatal("all jobs were done before the server was read-only")
	}
	readOnly(0)
	awaitProgress(t, s, before+1)
	back := time.Since(begun)
	s.awaitDone(t)
	suite.matrix.add(line{
		fault: "5 database server read-only", runs: 1, tally: s.known(t),
		note: fmt.Sprintf("goes on %s after", back.Round(time.Millisecond)),
	})
}
