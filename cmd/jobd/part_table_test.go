package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/manualtest"
	"jobd/cmd/internal/service"
	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store"
	"jobd/store/storetest/must"
)

// collated is a table that takes names for one as its collation does, and has no room for long
// ones.
type collated struct {
	store.Table
	fold func(string) string
	away error
}

func (c collated) Names(_ context.Context, names []string) (map[string]string, error) {
	unfit, seen := map[string]string{}, map[string]string{}
	for _, name := range names {
		if other, twice := seen[c.fold(name)]; twice {
			unfit[name] = "it is the same as " + other
		}
		if len(name) > 5 {
			unfit[name] = "it is too long"
		}
		seen[c.fold(name)] = name
	}
	return unfit, c.away
}

// Names that the table can't hold are mistakes of the configuration, told with their places; a
// table that does not answer is waited for.
func TestTargetsThatCanNotBeServed(t *testing.T) {
	t.Parallel()
	c := must.Get(fromFile(t, "[targets]\na = 1\nA = 1\ntoolong = 1\n"))(t)
	x := c.Path
	for name, test := range map[string]struct {
		reached bool
		away    error
		want    string
		code    int
	}{
		"unfit":          {true, nil, x + ":2: targets.a: \"a\" can't be served: it is the same as A\n" + x + ":4: targets.toolong: \"toolong\" can't be served: it is too long", exit.Usage},
		"not reached":    {false, nil, "<nil>", exit.Success},
		"not any longer": {true, errors.New("away"), "<nil>", exit.Success},
	} {
		p := &tablePart{table: collated{fold: strings.ToLower, away: test.away}, reached: test.reached, log: slog.New(slog.DiscardHandler)}
		if err := p.checkTargets(c); fmt.Sprint(err) != test.want || exit.Code(err) != test.code {
			t.Errorf("%s: %v with exit code %d", name, err, exit.Code(err))
		}
	}
}

// Masters know a worker that registers again by its journal's folder, however that is written.
func TestInstanceIsThatOfTheFolder(t *testing.T) {
	t.Parallel()
	mine, others := t.TempDir(), t.TempDir()
	first := must.Get(instance(mine))(t)
	again, _ := instance(filepath.Join(mine, "..", filepath.Base(mine)))
	other, _ := instance(others)
	if first != again || first == other || len(first) != 16 {
		t.Errorf("instances %q, again %q, of another folder %q", first, again, other)
	}
	if _, err := instance(filepath.Join(mine, "nowhere")); err == nil || !strings.Contains(err.Error(), "journal folder") {
		t.Errorf("error %v", err)
	}
}

// Regression: where the last try at a name that another worker has was cut short by the time that a
// start may take, the start went on, and its worker ran without a name.
func TestANameIsTakenThoughTheLastTryIsCutShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	taken, err := takeName(ctx, func(ctx context.Context) error {
		if tries++; tries == 1 {
			return fmt.Errorf("first: %w", &jobexec.NameTakenError{Name: "node-1", Holder: "connection 7"})
		}
		cancel()
		return ctx.Err()
	})
	if err != nil || taken == nil || taken.Holder != "connection 7" || tries != 2 {
		t.Errorf("after %d tries: %v, %v", tries, taken, err)
	}
}

// A client that leaves in the middle of a reading is nothing to warn about.
func TestAClientThatLeftIsNoWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	d.toldOfJournal(fmt.Errorf("read journal: %w", context.Canceled))
	if log.Len() > 0 {
		t.Errorf("logged: %s", &log)
	}
	d.toldOfJournal(errors.New("no access"))
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a failure is logged as %q", &log)
	}
}

// Those who only want to know what rows say wait in one row with those who want them explained: many of
// either would hold up the worker's claims.
func TestLooksAtRowsTakeTurns(t *testing.T) {
	t.Parallel()
	h := journalHandlers{daemon: &daemon{service: service.New(service.Config{})}}
	var ctx context.Context
	var err error
	for err == nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = h.service.Look(ctx)
	}
	_, err = h.rows(ctx, nil, jobnet.Request{From: principal.Known("", "", "127.0.0.1:1"), Type: api.JournalRows, Data: []byte(`{"ids":[5]}`)})
	if jobnet.CodeOf(err) != jobnet.CodeLimit {
		t.Errorf("one look too many: %v", err)
	}
}

// A stream is of the link over which it was opened, and of who opened it: nobody else goes on with it or ends it.
func TestStreamsBelongToWhoOpenedThem(t *testing.T) {
	t.Parallel()
	h := journalHandlers{daemon: &daemon{}, cursors: new(history.Cursors)}
	link, ann := new(jobnet.Link), principal.Known("ann", "token", "127.0.0.1:1")
	asks := func(link *jobnet.Link, from *principal.Session, cursor string, handler jobnet.Handler) error {
		_, err := handler(t.Context(), link, jobnet.Request{From: from, Data: []byte(`{"cursor":"` + cursor + `"}`)})
		return err
	}
	cursor := h.cursors.Open(t.Context(), ownerOf(link, jobnet.Request{From: ann}), "ann",
		func(_ context.Context, yield func(any) error) error { return yield("item") })
	narrower := *ann
	narrower.Scope = principal.Read
	for name, other := range map[string]struct {
		link *jobnet.Link
		from *principal.Session
	}{
		"another link":                {new(jobnet.Link), ann},
		"another one over the link":   {link, principal.Known("bob", "token", "127.0.0.1:1")},
		"the same one of less rights": {link, &narrower},
	} {
		for _, handler := range []jobnet.Handler{h.next, h.close} {
			if err := asks(other.link, other.from, cursor, handler); jobnet.CodeOf(err) != jobnet.CodeNotFound || err.Error() != "unknown journal cursor" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := asks(link, ann, cursor, h.next); err != nil {
		t.Errorf("who opened it: %v", err)
	}
}

// A table has something to tell while it is opened, when there is nobody yet to be told.
func TestNoticesBeforeAnybodyListensAreDropped(t *testing.T) {
	t.Parallel()
	var n notices
	n.serverMet()
	n.tableBack()
	n.givenBack([]string{"a"})
	n.changed()
	heard := 0
	n.connect(listeners{})
	n.tell(func(*listeners) { heard++ })
	if heard != 1 {
		t.Errorf("heard %d times, want once", heard)
	}
}

// Regression: with thousands of idle connections the collector ran without end, to get below a
// limit that did not know of them. (Not parallel: the limit is the process's.)
func TestMemoryFollowsConnections(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	m := limitMemory(config{})
	alone, changes := limit(), 0
	for _, step := range []struct{ from, to int }{{1, 10_000}, {10_000, 0}} {
		last := limit()
		for open := step.from; ; open += max(-1, min(1, step.to-step.from)) {
			m.linked(open)
			if now := limit(); now != last {
				last, changes = now, changes+1
			}
			if least := alone + int64(open)*memoryLink; last < least || last > least+3*linkStep*memoryLink {
				t.Fatalf("limit %d with %d connections, want about %d", last, open, least)
			}
			if open == step.to {
				break
			}
		}
	}
	if most := int(math.Ceil(2 * 10_000 / linkStep)); changes > most+2 {
		t.Errorf("the limit changed %d times, want at most %d", changes, most+2)
	}
}

// The database is away since the first of mirror and claims could not reach it, and reachable since
// the last of them could again; what else keeps claims from being made says nothing of it.
func TestSinceWhenTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Date(2026, 11, 20, 10, minutes, 0, 0, time.UTC) }
	away := func(minutes int, why string) *jobexec.Outage {
		return &jobexec.Outage{Why: why, Since: at(minutes), Away: true}
	}
	gone := errors.New("connection refused")
	for name, test := range map[string]struct {
		since  time.Time
		why    error
		worker jobexec.Status
		want   api.Standing
	}{
		"from the start on":            {want: api.Standing{Reachable: true, Since: at(0)}},
		"the mirror can't":             {at(5), gone, jobexec.Status{}, api.Standing{Since: at(5), Error: gone.Error()}},
		"claims can't":                 {at(3), nil, jobexec.Status{Outage: away(5, "access denied")}, api.Standing{Since: at(5), Error: "access denied"}},
		"both, the mirror first":       {at(5), gone, jobexec.Status{Outage: away(6, "x")}, api.Standing{Since: at(5), Error: gone.Error()}},
		"both, claims first":           {at(5), gone, jobexec.Status{Outage: away(4, "x")}, api.Standing{Since: at(4), Error: gone.Error()}},
		"back, the mirror last":        {at(9), nil, jobexec.Status{Returned: at(8)}, api.Standing{Reachable: true, Since: at(9)}},
		"back, claims last":            {at(7), nil, jobexec.Status{Returned: at(8)}, api.Standing{Reachable: true, Since: at(8)}},
		"a full disk is no such thing": {at(7), nil, jobexec.Status{Outage: &jobexec.Outage{Why: "full", Since: at(8)}}, api.Standing{Reachable: true, Since: at(7)}},
	} {
		if got := standingOf(at(0), test.since, test.why, test.worker); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// Jobs of a target that is gone from the file end by what was said of them; a section that is gone
// from a file that has its target still says nothing any more.
func TestTermsOfTargetsThatAreGone(t *testing.T) {
	t.Parallel()
	before := must.Get(fromFile(t, "use_columns = all\n[targets]\na = 1\nb = 1\nc = 1\nd = 1\n[target a]\nattempts = 5\n[target b]\ntimeout = 1\n[target c]\ntimeout = 1\n[target d]\ntimeout = 1\n"))(t)
	now := must.Get(fromFile(t, "[targets]\na = 1\nc = 1\n[target a]\nattempts = 1\ntimeout = 2\n"))(t)
	r := &reloader{started: before, current: before, inForce: before.terms(before.time.uses)}
	a, b := noTerms, noTerms
	a.Attempts, a.Timeout, b.Timeout = 1, 2*time.Second, time.Second
	got := r.terms(now, []string{"a", "b", "c", "added by a client"})
	if diff := cmp.Diff(map[string]jobexec.Terms{"a": a, "b": b}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeysThatTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	c := mustParse(t, with(), nil)
	for key, want := range map[string]bool{
		"targets.a": true, "target.a.timeout": true, "target.a.b.launcher.env.X": true, "launcher": true, "launcher.cwd": true,
		"launcher.env.X": true, "launcher_split": true, "time_zone": true, "missed": true, "log_level_file": true,
		"use_columns": false, "prefetch": false, "on_crash": false, "log_file": false, "mysql_host": false, "master_host": false,
	} {
		if got := c.read.IsLive(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

// newRestarter is one whose binary does what a script says.
func newRestarter(t *testing.T, script string) *restarter {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "jobd")
	syscall.ForkLock.RLock() // a process that another test starts just then would keep the file open
	err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return &restarter{
		next:   jobdaemon.Successor{Program: program, Binary: binary, Args: append(with(), "--port=7082")},
		ending: jobdaemon.NewEnding(),
		held:   func() []string { return []string{"127.0.0.1:7080"} },
	}
}

// The next start says where it will listen, and nothing has been given up by then.
func TestFollow(t *testing.T) {
	t.Parallel()
	r := newRestarter(t, "echo 'jobd 9.9.9'")
	next, err := r.Follow(t.Context())
	if err != nil || next.PID != os.Getpid() || next.Address != "127.0.0.1:7082" {
		t.Errorf("next %+v, %v", next, err)
	}
	if r.ending.Restarting() {
		t.Error("it restarts though nobody said so")
	}
}

// What the next start finds wrong is told.
func TestFollowIsRefused(t *testing.T) {
	t.Parallel()
	r := newRestarter(t, "echo 'jobd 9.9.9'; echo 'wrong    launcher: gone'; exit 1")
	for range 2 {
		if _, err := r.Follow(t.Context()); fmt.Sprint(err) != "launcher: gone" {
			t.Errorf("error %v", err)
		}
	}
}

// The manual pages say what the help says.
func TestManualPages(t *testing.T) {
	t.Parallel()
	set := conf.New(about())
	new(check.Mode).Register(set)
	new(config).Register(set)
	manualtest.CheckKeys(t, filepath.Join("..", "..", "docs", "configuration.md"), "jobd", set)
	manualtest.CheckDaemon(t, filepath.Join("..", "..", "packaging", "man"), set, manualtest.Daemon{
		Name: "jobd", Summary: "run the jobs of a table's rows", Other: "jobd-master", Option: "--mysql-host", Prefix: environPrefix,
		Description: []string{
			about().Summary + " It claims rows that wait, starts the launcher for each, and writes back how the job ended. " +
				"Whatever happens to a job is in a journal on its own disk first, which jobctl reads.",
			"Jobs are started by a second process, jobd runner, so that a worker can be stopped, killed or upgraded while its jobs run on.",
		},
		Signals: []layout.Term{
			{Name: "SIGTERM, SIGINT", Meaning: "Claim no more, give back what has not started, and end when what runs has ended: see shutdown_timeout and on_stop in jobd.conf(5). A second one ends at once."},
			{Name: "SIGHUP", Meaning: "Read the file again and take over targets, concurrency, what is said of targets, launchers, time_zone, missed and log levels; open the log anew."},
		},
		Files: []layout.Term{{Name: "/var/lib/jobd/NAME", Meaning: "the journal of the worker NAME, where nothing else is said"}},
		Example: []string{
			"host = 127.0.0.1", "port = 7080", "mysql_host = /run/mysqld/mysqld.sock", "mysql_user = jobd", `mysql_password = "secret"`,
			"mysql_database = app", "launcher = /usr/bin/php /srv/app/job.php {id}", "", "[targets]", "mail = 10", "video/convert = 2",
			"", "[target video/convert]", "timeout = 2h", "kill_after = 1m",
		},
	})
}
