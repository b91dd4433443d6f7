package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/store"
	"jobd/store/storetest/must"
)

// fromFile reads a configuration of leastFlags and a file.
func fromFile(t *testing.T, text string, more ...string) (config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobd.conf")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return parseConfig(slices.Concat(leastFlags()[1:], []string{"--config", path}, more), []string{"PATH=/bin", "JOBD_X=1"}, t.Output())
}

// noTerms are what a section says that says nothing.
var noTerms = jobexec.Terms{Backoff: jobexec.Backoff{First: 10 * time.Second, Most: time.Hour}, KillAfter: 10 * time.Second}

func TestTermsOfTargets(t *testing.T) {
	t.Parallel()
	const text = `use_columns = run_at, planned_at, attempts, schedule
master_host = ::1
master_port = 7081
launcher.cwd = /tmp
launcher.env.A = common
launcher.env.B = common

[target mail]
attempts = 5
backoff = 30..2h
timeout = 1h30m
kill_after = 5
rate = 100/m
rate_scope = worker

[targets]
mail = 10
" odd ] one " = 1
plain = 2
folder = 1
env = 1

[target " odd ] one "]
launcher = /bin/echo "{id}"
backoff = 90s
attempts = 2

[target folder]
launcher.cwd = /

[target env]
launcher.env.B = own
launcher.env.C = own
`
	c := must.Get(fromFile(t, text))(t)
	environ := []string{"PATH=/bin", "A=common", "B=common"}
	odd, folder, env := noTerms, noTerms, noTerms
	odd.Attempts, odd.Backoff = 2, jobexec.Backoff{First: 90 * time.Second, Most: 90 * time.Second}
	odd.Launcher = &jobexec.Launcher{Words: []string{"/bin/echo", `"{id}"`}, Dir: "/tmp", Env: environ}
	folder.Launcher = &jobexec.Launcher{Words: []string{"run", "{id}"}, Dir: "/", Env: environ}
	env.Launcher = &jobexec.Launcher{Words: []string{"run", "{id}"}, Dir: "/tmp", Env: []string{"PATH=/bin", "A=common", "B=own", "C=own"}}
	want := map[string]jobexec.Terms{
		"mail": {
			Attempts: 5, Backoff: jobexec.Backoff{First: 30 * time.Second, Most: 2 * time.Hour},
			Timeout: 90 * time.Minute, KillAfter: 5 * time.Second,
			Rate: jobexec.Rate{Starts: 100, Per: time.Minute},
		},
		" odd ] one ": odd, "folder": folder, "env": env,
	}
	if diff := cmp.Diff(want, c.terms(c.time.uses)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

// Rows can't come back in a table that is used without the columns for it, whatever a configuration
// says that is read later.
func TestAttemptsWithoutColumns(t *testing.T) {
	t.Parallel()
	c := must.Get(fromFile(t, "use_columns = all\n[targets]\na = 1\nb = 1\n[target a]\nattempts = 5\n"))(t)
	got := c.terms(store.Uses{"run_at", "attempts"})
	if _, has := got["b"]; has || got["a"].Attempts != 1 || c.terms(c.time.uses)["a"].Attempts != 5 {
		t.Errorf("terms %+v", got)
	}
}

func TestTargetsThatAreWrong(t *testing.T) {
	t.Parallel()
	const seconds = "whole seconds, or a duration such as 90s, 10m, 1h30m or 30d, from 1s to 36500d"
	const backoff = "FIRST..MOST, as in 10s..1h, with FIRST at most MOST, or one of them; both are whole seconds"
	const rate = "a whole number from 1 to 1000000 per second, minute or hour, as in 50/s, 100/m or 1000/h"
	for name, test := range map[string]struct{ text, want string }{
		"a name that is missing":   {"[targets]\nmail = 1\n[target mial]\n", `:3: [target mial]: [targets] has no target of that name; allowed: the names there; the nearest one is mail`},
		"no name that is near":     {"[targets]\nmail = 1\nsms = 1\n[target video]\n", ":4: [target video]: [targets] has no target of that name; allowed: the names there"},
		"attempts":                 {"[target a]\nattempts = 0\n", `:2: target.a.attempts: "0" is not allowed; allowed: a whole number from 1 to 65535`},
		"attempts, many":           {"[target a]\nattempts = 65536\n", `:2: target.a.attempts: "65536" is not allowed`},
		"attempts without columns": {"use_columns = run_at, planned_at\n[target a]\nattempts = 2\n", ":3: target.a.attempts: a second attempt needs columns for it; allowed: 1, or use_columns with run_at, planned_at and attempts"},
		"backoff":                  {"[target a]\nbackoff = soon\n", `:2: target.a.backoff: "soon" is not allowed; allowed: ` + backoff},
		"backoff, fractions":       {"[target a]\nbackoff = 0.5..1h\n", `target.a.backoff: "0.5..1h" is not allowed`},
		"backoff, backwards":       {"[target a]\nbackoff = 1h..10s\n", `target.a.backoff: "1h..10s" is not allowed`},
		"backoff, open":            {"[target a]\nbackoff = 10s..\n", `target.a.backoff: "10s.." is not allowed`},
		"timeout":                  {"[target a]\ntimeout = 0\n", `:2: target.a.timeout: "0" is not allowed; allowed: ` + seconds},
		"kill_after":               {"[target a]\nkill_after = 10 s\n", `:2: target.a.kill_after: "10 s" is not allowed; allowed: ` + seconds},
		"rate":                     {"[target a]\nrate = 50\n", `:2: target.a.rate: "50" is not allowed; allowed: ` + rate},
		"rate, none":               {"[target a]\nrate = 0/s\n", `target.a.rate: "0/s" is not allowed`},
		"rate, a day":              {"[target a]\nrate = 50/d\n", `target.a.rate: "50/d" is not allowed`},
		"rate, beyond all bounds":  {"[target a]\nrate = 1000001/h\n", `target.a.rate: "1000001/h" is not allowed`},
		"rate_scope":               {"[target a]\nrate = 1/s\nrate_scope = fleet\n", `:3: target.a.rate_scope: "fleet" is not allowed; allowed: worker (there is no fleet any more: give each worker its part of the rate)`},
		"launcher":                 {"[target a]\nlauncher = \n", `:2: target.a.launcher: "" is not allowed; allowed: any text but an empty one`},
		"launcher, an open quote":  {"launcher_split = shell\n[target a]\nlauncher = run 'x {id}\n", ":3: target.a.launcher: a quote ' is not closed"},
		"launcher.cwd":             {"[target a]\nlauncher.cwd = /nowhere/at/all\n", ":2: target.a.launcher.cwd: stat /nowhere/at/all: no such file or directory; allowed: a folder that exists"},
		"launcher.env":             {"[target a]\nlauncher.env.A = \"\\u0000\"\n", ":2: target.a.launcher.env.A: its value is not allowed; allowed: any text without NUL bytes"},
		"a common key":             {"[target a]\nlauncher_split = shell\n", ":2: the key launcher_split stands in the section [target a]; allowed: the place above all sections"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fromFile(t, test.text, "--targets.a=1")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestTargetsByFlagAndVariable(t *testing.T) {
	t.Parallel()
	c := must.Get(parseConfig(with("--target.a.kill-after=3", "--target.a.timeout", "4"), []string{"JOBD_TARGET_a_RATE=5/s", "JOBD_TARGET_a_TIMEOUT=9"}, t.Output()))(t)
	want := noTerms
	want.KillAfter, want.Timeout, want.Rate = 3*time.Second, 4*time.Second, jobexec.Rate{Starts: 5, Per: time.Second}
	if diff := cmp.Diff(map[string]jobexec.Terms{"a": want}, c.terms(nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	refused(t, with("--target.b.timeout=1"), "flag --target.b.timeout: target.b.timeout: [targets] has no target of that name; allowed: the names there")
	refused(t, with("--target.a.timeuot=1"), "unknown flag --target.a.timeuot; the nearest known one is --target.NAME.timeout")
}

// A launcher of a target's own is looked at as the common one is, and told with its section.
func TestLaunchersAreChecked(t *testing.T) {
	t.Parallel()
	c := must.Get(fromFile(t, "[targets]\na = 1\n\"b c\" = 1\n[target b c]\nlauncher = /nowhere/launcher {id}\n[target a]\ntimeout = 90\nkill_after = 2h\n", "--launcher=/bin/echo {id}"))(t)
	const want = "launcher of [target b c]: it can't be executed: /nowhere/launcher: no such file or directory"
	if err := c.checkLaunchers(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	said := map[string]string{}
	for _, finding := range c.findLaunchers(false) {
		said[finding.What] = finding.Detail
		if finding.Ends != (finding.What == "launcher of [target b c]") {
			t.Errorf("ends a start: %+v", finding)
		}
	}
	found := map[string]string{
		"launcher":                 "/bin/echo can be executed in " + workingDir(t),
		"launcher of [target b c]": "it can't be executed: /nowhere/launcher: no such file or directory",
	}
	if diff := cmp.Diff(found, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUseColumns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want store.Uses
	}{
		"none":             {with(), nil},
		"none, as a flag":  {with("--use-columns="), nil},
		"one":              {with("--use-columns=priority"), store.Uses{"priority"}},
		"some, with blank": {with("--use-columns= run_at,planned_at ,  attempts"), store.Uses{"run_at", "planned_at", "attempts"}},
		"all":              {with("--use-columns= all "), store.TimeColumns()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, test.args, nil)
			if diff := cmp.Diff(test.want, c.time.uses); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]store.Uses{c.time.uses, c.time.uses}, []store.Uses{c.store.mysql.Uses, c.store.sqliteConfig().Uses}); diff != "" {
				t.Errorf("the stores use (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeThatIsWrong(t *testing.T) {
	t.Parallel()
	const columns = "run_at, planned_at, schedule, time_zone, attempts, max_attempts, timeout, priority, unique_key, or all"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a slip":                 {with("--use-columns=run_at,planed_at"), `flag --use-columns: use_columns: "planed_at" is not an optional column of jobd's; allowed: ` + columns + `; the nearest known one is planned_at`},
		"capitals":               {with("--use-columns=Run_At"), `"Run_At" is not an optional column of jobd's; allowed: ` + columns + `; the nearest known one is run_at`},
		"a column of all tables": {with("--use-columns=status"), `"status" is not an optional column of jobd's; allowed: ` + columns},
		"an empty name":          {with("--use-columns=run_at,"), `use_columns: "" is not an optional column of jobd's`},
		"twice":                  {with("--use-columns=run_at,priority,run_at"), `use_columns: "run_at" stands there twice; allowed: each once`},
		"all and more":           {with("--use-columns=run_at,all"), `use_columns: "all" is not an optional column of jobd's`},
		"companions":             {with("--use-columns=priority,schedule"), "use_columns: schedule needs run_at, planned_at, attempts; allowed: a list that has them, or all"},
		"the claim's column":     {with("--use-columns=unique_key", "--claim-column=unique_key"), `flag --claim-column: claim_column: "unique_key" is not allowed: use_columns has it, too; allowed: sig, or a column of its own`},
		"Local":                  {with("--time-zone=Local"), `flag --time-zone: time_zone: "Local": it differs from host to host: write a name of the tz database, as Europe/Berlin, or UTC`},
		"an offset":              {with("--time-zone=+02:00"), `time_zone: "+02:00" is not known: write a name of the tz database, as Europe/Berlin, or UTC`},
		"an unknown zone":        {with("--time-zone=Europe/Atlantis"), `time_zone: "Europe/Atlantis" is not known: write a name of the tz database, as Europe/Berlin, or UTC`},
		"no zone":                {with("--time-zone="), "time_zone: the time zone is empty: write a name of the tz database"},
		"a password as a zone":   {with("--time-zone=hunter2", "--password=hunter2"), "time_zone: its value is not allowed; allowed: a name of the tz database, as Europe/Berlin, or UTC"},
		"missed":                 {with("--missed=never"), `flag --missed: missed: "never" is not allowed; allowed: one of: once, skip`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, test.args, test.want)
		})
	}
}

// refused expects an error of the configuration.
func refused(t *testing.T, args []string, want string) {
	t.Helper()
	_, err := parseConfig(args, nil, t.Output())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if code := exit.Code(err); code != exit.Usage {
		t.Errorf("exit code %d, want %d", code, exit.Usage)
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password is told: %v", err)
	}
}

func TestTimeZoneAndMissed(t *testing.T) {
	t.Parallel()
	c := mustParse(t, with("--use-columns=all", "--time-zone=Europe/Berlin", "--missed=skip"), nil)
	if c.time.location.String() != "Europe/Berlin" || !c.time.skipMissed || len(c.Warnings) > 0 {
		t.Errorf("read as %+v; warnings %q", c.time, c.Warnings)
	}
}

// What listens at a master's address is asked what it is: a worker answers as readily as a master
// does.
func TestCheckKnowsAMasterFromAWorker(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"register-worker": "answers, and takes this credential for a worker's",
		"run-manual":      "it is not a master",
	} {
		server := jobnet.NewServer(jobnet.ServerConfig{Password: "s3cret", Handlers: map[string]jobnet.Handler{
			request: func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
				return nil, jobnet.Refusal("name is missing or invalid")
			},
		}})
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- server.Serve(ctx, listener) }()
		address := netip.MustParseAddrPort(listener.Addr().String()).String()
		for password, want := range map[string]string{"s3cret": want, "other": "it refuses this worker's password"} {
			c := config{Settings: jobdaemon.Settings{Listen: conf.Listen{Password: password}}}
			got := c.checkMaster(t.Context(), address)
			if len(got) != 1 || !strings.Contains(got[0].Detail, want) || (got[0].Level == check.Wrong) != strings.HasPrefix(want, "it ") {
				t.Errorf("%s with password %s: %+v", request, password, got)
			}
		}
		cancel()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-served
	}
}
