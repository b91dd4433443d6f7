package index

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Whatever happens to jobs, in whatever batches it comes, and wherever the writer is killed: the rows are what the
// fold of the whole history has, and what an index has that is made at once.
func TestAnIndexThatIsMadeAnewIsTheSame(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: readtest.Ticking()})
		x := New(Config{Dir: j.Dir, Log: j})
		for range 6 {
			live(r, j, 50)
			if r.IntN(3) == 0 {
				journaltest.Roll(t, j)
			}
			bring(t, x, func() int { return r.IntN(30) })
		}
		bring(t, x, nil)
		got := dump(t, x)
		same(t, fmt.Sprintf("seed %d, made anew", seed), anew(t, j), got)

		state := must.Get(readtest.StateAt(t.Context(), readtest.OpenReader(t, j.Dir), time.Time{}))(t)
		rows := map[string]bool{}
		for _, line := range got {
			if f := strings.Split(line, "|"); len(f) > 10 {
				rows[strings.Join(f[1:4], "|")] = true
			}
		}
		n := 0
		for id, job := range state.Jobs {
			if job.Status == journal.StatusNone {
				continue
			}
			n++
			met[string(job.Status)+job.Result] = true
			if want := fmt.Sprintf("%d|%s|%d", id, job.Target, stateOf(job.Status, job.Result)); !rows[want] {
				t.Errorf("seed %d: no row %s: %q", seed, want, got)
			}
		}
		check.Equal(t, n, len(rows), "seed %d: … rows, and the history has … jobs", seed)
	}
	if len(met) < len(statuses)-2 { // which the seeds happen to end with
		t.Errorf("the histories end with %v only", met)
	}
}

// What retention removes from the journal goes from the index; a job under way stays.
func TestRetention(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: readtest.Ticking(), Retention: journaltest.Day, NoTable: true})
	x := New(Config{Dir: j.Dir, Log: j})
	journaltest.MustAppend(t, j, journal.Draft{Job: 99, Payload: journal.Accepted{Target: "t", Token: "@"}},
		journal.Draft{Job: 99, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 99, Payload: journal.Started{Pid: 1}})
	fail := func(job int64) {
		for _, payload := range []journal.Payload{
			journal.Accepted{Target: "t", Token: "@"}, journal.Running{Attempt: 1}, journal.Started{Pid: 1}, journal.Done{Result: "fail"},
		} {
			journaltest.MustAppend(t, j, journal.Draft{Job: job, Payload: payload})
		}
	}
	for n := range int64(4) {
		lives(t, j, n*10+1, n*10+10)
		fail(201 + n)
		journaltest.Roll(t, j)
		lives(t, j, n*10+101, n*10+101)
		fail(301 + n)
		bring(t, x, nil)
		journaltest.MustMaintain(t, j)
		bring(t, x, nil)
	}
	got, made := dump(t, x), anew(t, j)
	count := func(lines []string, id string) (n int) {
		for _, line := range lines {
			if f := strings.Split(line, "|"); len(f) > 10 && (id == "" || f[1] == id) {
				n++
			}
		}
		return n
	}
	failures := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, "failure|") })
	}
	same(t, "failures", failures(got), failures(made))
	if n := len(failures(got)); n == 0 || n == 8 {
		t.Errorf("%d failures are kept", n)
	}
	if count(got, "99") != 1 || count(got, "1") != 0 || count(got, "") >= 52 || count(got, "") != count(made, "") || count(made, "99") != 1 {
		t.Errorf("of a journal with less history\n%q\nmade anew\n%q", got, made)
	}
	journaltest.MustAppend(t, j, journal.Draft{Job: 99, Payload: journal.Done{Result: "ok"}})
	bring(t, x, nil)
	after := dump(t, x)
	check.Equal(t, count(after, "99"), 1, "it ends: %q", after)
}

// A file that is no index of this journal is made anew, and that is told once.
func TestFilesThatAreNoIndexOfIt(t *testing.T) {
	t.Parallel()
	other := journaltest.OpenTest(t, t.TempDir())
	lives(t, other, 1, 30)
	bring(t, New(Config{Dir: other.Dir, Log: other}), nil)
	sql := func(statement string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db := pool(path, "rw", 1)
			_ = must.Get(db.ExecContext(t.Context(), statement))(t)
			must.Do(t, db.Close())
		}
	}
	for name, spoil := range map[string]func(t *testing.T, path string){
		"no database": func(t *testing.T, path string) {
			must.Do(t, os.WriteFile(path, []byte(strings.Repeat("nonsense ", 2000)), 0o600))
		},
		"a newer one":      sql("PRAGMA user_version = 99"),
		"without a table":  sql("DROP TABLE jobs"),
		"ahead":            sql("UPDATE noted SET seq = 1000"),
		"another event":    sql("UPDATE noted SET seq = seq - 1"),
		"a job in between": sql("UPDATE jobs SET state = 1, job = '{' WHERE seq = (SELECT max(seq) FROM jobs)"),
		"another journal's": func(t *testing.T, path string) {
			must.Do(t, os.WriteFile(path, must.Get(os.ReadFile(filepath.Join(other.Dir, fileName)))(t), 0o600))
		},
		"cut off": func(t *testing.T, path string) {
			must.Do(t, os.Truncate(path, must.Get(os.Stat(path))(t).Size()/2/4096*4096))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := journaltest.OpenTest(t, t.TempDir())
			lives(t, j, 1, 40)
			out := &told{}
			x, level := indexOf(j, out, nil)
			bring(t, x, nil)
			spoil(t, x.path)
			lives(t, j, 41, 60)
			run(t, x, func() {
				await(t, x, level)
				jobs, _, err := x.Jobs(t.Context(), Query{Most: 100, Targets: []string{"t"}})
				for (err != nil || len(jobs) != 60) && t.Context().Err() == nil { // a query has met it
					await(t, x, level)
					lives(t, j, 60, 60)
					jobs, _, err = x.Jobs(t.Context(), Query{Most: 100, Targets: []string{"t"}})
				}
			})
			same(t, "made anew", dump(t, x), anew(t, j))
			if n := out.warnings(); n < 1 || n > 2 {
				t.Errorf("%d warnings: %s", n, out.String())
			}
		})
	}
}

// Whichever step fails, and however: the index comes to the same in the end.
func TestEachStepFails(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Retention: journaltest.Day, NoTable: true})
	lives(t, j, 1, 3)
	journaltest.Roll(t, j)
	lives(t, j, 4, 6)
	journaltest.MustAppend(t, j, journal.Draft{Job: 9, Payload: journal.Accepted{Target: "t"}})
	want := anew(t, j)
	for _, failure := range []error{errors.New("some I/O error"), syscall.ENOSPC, errUnfit} {
		for n := 1; ; n++ {
			steps, out := 0, &told{}
			x, level := indexOf(j, out, func(string) error {
				if steps++; steps == n {
					return failure
				}
				return nil
			})
			run(t, x, func() { await(t, x, level) })
			same(t, fmt.Sprintf("%v in step %d", failure, n), dump(t, x), want)
			must.Do(t, Remove(j.Dir))
			if steps < n {
				break
			}
			if out.warnings() != 1 {
				t.Errorf("%v in step %d: told %q", failure, n, out.String())
			}
		}
	}
}

// While nothing may be written the index says so, and goes on when it may.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenTest(t, t.TempDir())
	lives(t, j, 1, 3)
	out := &told{}
	x, level := indexOf(j, out, nil)
	asked := 0
	x.config.Room = func() error {
		if asked++; asked > 3 {
			return nil
		}
		if s := x.Standing(t.Context()); asked == 3 && (s.Stopped != "there is no room" || s.Lag == 0) {
			t.Errorf("it says %+v", s)
		}
		return errors.New("there is no room")
	}
	run(t, x, func() { await(t, x, level) })
	if out.warnings() != 1 {
		t.Errorf("told %q", out.String())
	}
}

// A worker that starts is spared the index until somebody asks.
func TestTheFirstQuestionHasItBegin(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenTest(t, t.TempDir())
	x, level := indexOf(j, &told{}, nil)
	x.config.begin = time.Hour
	run(t, x, func() {
		if _, err := os.Stat(x.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it was made unasked: %v", err)
		}
		if _, err := x.Targets(t.Context()); err != nil {
			t.Errorf("the first question: %v", err)
		}
		await(t, x, level)
	})
}
