package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	jobexec "jobd/exec"
	"jobd/journal/eventlog"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// leastFlags are the least that jobd needs to be told, apart from targets.
func leastFlags() []string {
	return []string{"--config=", "--host=127.0.0.1", "--port=0", "--store=sqlite", "--sqlite-path=jobs.db", "--launcher=run {id}"}
}

// with is leastFlags, a target, and more.
func with(more ...string) []string {
	return append(append(leastFlags(), "--targets.a=1"), more...)
}

func mustParse(t *testing.T, args, environ []string) config {
	t.Helper()
	c, err := parseConfig(args, environ, t.Output())
	if err != nil {
		t.Fatalf("parseConfig(%q): %v", args, err)
	}
	return c
}

// installed is a copy of a file that only its owner reads, as it is installed.
func installed(t *testing.T, path ...string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(path...)))(t)
	copied := filepath.Join(t.TempDir(), filepath.Base(path[len(path)-1]))
	must.Do(t, os.WriteFile(copied, content, 0o600))
	return copied
}

func workingDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.Getwd())(t)
	return dir
}

func diffConfig(want, got config) string {
	got.read = nil // where things stood, not what they say
	zones := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	return cmp.Diff(want, got, zones, cmpopts.IgnoreUnexported(mysql.Config{}, eventlog.Config{}), cmp.AllowUnexported(config{}, conf.TLS{}, masterConfig{}, storeConfig{}, timeConfig{}, launcherConfig{}, jobsConfig{}, journalConfig{}, gearmanConfig{}), cmpopts.EquateComparable(netip.Prefix{}))
}

var defaultKeep = jobexec.Keep{BootTimeout: 30 * time.Second}

var defaultTime = timeConfig{zone: "UTC", location: time.UTC}

var defaultGearman = gearmanConfig{maxPacket: 64 << 20}

var defaultJournal = journalConfig{Journal: jobdaemon.Journal{
	Of: "worker", Low: "no job is claimed",
	Log:     eventlog.Config{SegmentSize: 64 << 20, SegmentAge: 24 * time.Hour, Retention: 30 * 24 * time.Hour},
	MinFree: 64 << 20,
}, index: true}

func TestConfigOfTheOriginal(t *testing.T) {
	t.Parallel()
	path := installed(t, "..", "..", "testdata", "configurations", "jobd.conf")
	got := mustParse(t, []string{"--config", path}, []string{"PATH=/bin", "LC_ALL=C", "JOBD_SECRET=x"})
	want := config{
		Settings: jobdaemon.Settings{
			Path: path,
			Warnings: []string{
				path + ":5: password: it has fewer than 16 characters, and others reach the port: clients can be locked out by wrong ones from their address; set a longer one, as openssl rand -base64 24 makes it",
			},
			Listen: conf.Listen{
				Host: "0.0.0.0", Port: 7080, Password: `pa;ss # "word"`, AllowLocalhost: true, MaxMessageSize: 16 << 20,
			},
			Log: logging.Config{File: "/tmp/jobd.log", FileLevel: slog.LevelInfo, ConsoleLevel: slog.LevelDebug, Format: "text", Keep: 10},
		},
		name:    "web-1",
		masters: masterConfig{hosts: "127.0.0.1", port: 7081, addresses: []string{"127.0.0.1:7081"}, scope: "admin", reconnect: 10 * time.Second},
		store: storeConfig{
			kind: "mysql", fetchLimit: 100,
			mysql: mysql.Config{
				Host: "10.0.0.2", Port: 3306, User: "jobd", Password: `it "is" a #1 secret`, ClaimColumn: "sig", Worker: "web-1",
				Database: "site", Table: "jobs", MaxOpen: 8, MaxOutput: 16777216,
			},
		},
		launcher: launcherConfig{
			mode: "process", runs: jobexec.ModeProcess, keep: defaultKeep,
			command: `php /tmp/job.php "{id}" --escaped=a;b#c`, split: "spaces",
			extra: []string{"LC_ALL=en_US.UTF-8", "lower_Case=two words"},
			words: []string{"php", "/tmp/job.php", `"{id}"`, "--escaped=a;b#c"},
			dir:   "/tmp",
			env:   []string{"PATH=/bin", "LC_ALL=en_US.UTF-8", "lower_Case=two words"},
		},
		time:    defaultTime,
		journal: defaultJournal,
		gearman: defaultGearman,
		targets: map[string]int{"low": 5, "normal": 5, "high/video": 2, "node1:fast": 1},
		jobs: jobsConfig{
			maxOutputBuffer: 16777216, prefetch: onePerSlot, pollInterval: 30 * time.Second, maxAttempts: 3, shutdownTimeout: 30 * time.Second, lostAfter: 5 * time.Minute,
		},
	}
	check.Equal(t, diffConfig(want, got), "", "(-want +got)")
}

func TestConfigWithCarriageReturns(t *testing.T) {
	t.Parallel()
	c := mustParse(t, []string{"--config", filepath.Join("..", "..", "testdata", "configurations", "jobd-crlf.conf")}, nil)
	if c.Listen.Address() != "[::]:7080" || !c.Listen.AllowLocalhost || c.store.sqlitePath != "C:/jobs.db" || c.targets["a/1"] != 3 {
		t.Errorf("read as %+v", c)
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c := mustParse(t, with(), []string{"A=b"})
	host := must.Get(os.Hostname())(t)
	want := config{
		Settings: jobdaemon.Settings{
			Listen: conf.Listen{Host: "127.0.0.1", MaxMessageSize: 16 << 20},
			Log:    logging.Config{FileLevel: slog.LevelWarn, ConsoleLevel: slog.LevelWarn, Format: "text", Keep: 10},
		},
		name:    host,
		masters: masterConfig{scope: "admin", reconnect: 10 * time.Second},
		store: storeConfig{
			kind: "sqlite", sqlitePath: "jobs.db", fetchLimit: 100,
			mysql: mysql.Config{Table: "jobs", ClaimColumn: "sig", MaxOpen: 8, MaxOutput: 1 << 20, Worker: host},
		},
		launcher: launcherConfig{mode: "process", runs: jobexec.ModeProcess, keep: defaultKeep, command: "run {id}", split: "spaces", words: []string{"run", "{id}"}, dir: workingDir(t), env: []string{"A=b"}},
		targets:  map[string]int{"a": 1},
		time:     defaultTime,
		journal:  defaultJournal,
		gearman:  defaultGearman,
		jobs:     jobsConfig{maxOutputBuffer: 1 << 20, prefetch: onePerSlot, pollInterval: 30 * time.Second, maxAttempts: 3, shutdownTimeout: 30 * time.Second, lostAfter: 5 * time.Minute},
	}
	check.Equal(t, diffConfig(want, c), "", "(-want +got)")
}

func TestConfigWrongValues(t *testing.T) {
	t.Parallel()
	const socket = "--mysql-host=/run/mysqld/mysqld.sock"
	mysql := []string{"--store=mysql", socket, "--mysql-user=u", "--mysql-password=", "--mysql-database=d"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"host":                     {with("--host="), `flag --host: host: "" is not allowed; allowed: one name or address; a port belongs to the key port`},
		"port: no number":          {with("--port=http"), `flag --port: port: "http" is not allowed; allowed: a whole number from 0 to 65535`},
		"master_host: port":        {with("--master-host=a:b"), `flag --master-host: master_host: "a:b" is not allowed; allowed: names and addresses, each with :port or without, as in: a, b:7082, [::1]:7081`},
		"master_host: no name":     {with("--master-host=:7081"), `master_host: ":7081"`},
		"master_host: the second":  {with("--master-host=a:1, b:0"), `master_host: "b:0"`},
		"master_port":              {with("--master-port=0"), `master_port: "0"`},
		"master_reconnect_timeout": {with("--master-reconnect-timeout=0"), `master_reconnect_timeout: "0"`},
		"store":                    {with("--store=postgres"), `store: "postgres" is not allowed; allowed: one of: mysql, sqlite`},
		"store: mysql needs a host": {
			with("--store=mysql"), "mysql_host: required for store = mysql; give it as --mysql-host or as JOBD_MYSQL_HOST\nmysql_port: required for store = mysql;",
		},
		"store: mysql needs a port, unless by socket": {
			with(append(mysql, "--mysql-host=db")...), "mysql_port: required for store = mysql;",
		},
		"sqlite_path missing": {[]string{"--config=", "--host=h", "--port=1", "--store=sqlite", "--launcher=x {id}", "--targets.a=1"}, "sqlite_path: required for store = sqlite; give it as --sqlite-path or as JOBD_SQLITE_PATH"},
		"mysql_table: three parts": {
			with(append(mysql, "--mysql-table=a.b.c")...), `mysql_table: "a.b.c" is not allowed; allowed: table or database.table`,
		},
		"mysql_max_connections: few": {with("--mysql-max-connections=3"), `mysql_max_connections: "3" is not allowed; allowed: a whole number from 4 to 1000`},
		"launcher: blank":            {with("--launcher=  "), `launcher: "  " is not allowed; allowed: a command, as in: /usr/bin/php run.php {id}`},
		"launcher: open quote":       {with("--launcher=run 'x {id}", "--launcher-split=shell"), `flag --launcher: launcher: a quote ' is not closed`},
		"launcher: backslash":        {with(`--launcher=run {id} \`, "--launcher-split=shell"), `launcher: the \ at its end escapes nothing`},
		"launcher: quoted empty":     {with(`--launcher='' {id}`, "--launcher-split=shell"), `launcher: "'' {id}" is not allowed`},
		"launcher.cwd: absent":       {with("--launcher.cwd=/nowhere/at/all"), `launcher.cwd: stat /nowhere/at/all: no such file or directory; allowed: a folder that exists`},
		"launcher.cwd: a file":       {with("--launcher.cwd=/dev/null"), `launcher.cwd: /dev/null is not a folder; allowed: a folder that exists`},
		"launcher.env: NUL":          {with("--launcher.env.A=\x00"), `launcher.env.A: its value is not allowed; allowed: any text without NUL bytes`},
		"max_output_buffer":          {with("--max-output-buffer=0"), `max_output_buffer: "0" is not allowed; allowed: bytes, or a size such as 16MiB, from 1 to 1073741824`},
		"targets: none":              {leastFlags(), "[targets]: at least one target is required, as in: name = 4"},
		"targets: null":              {with("--targets.null=1"), `targets.null: "1" is not allowed; allowed: any name but null, which is reserved`},
		"targets: zero":              {with("--targets.b=0"), `targets.b: "0" is not allowed; allowed: a whole number of at least 1`},
		"journal_segment_size":       {with("--journal-segment-size=1KiB"), `journal_segment_size: "1KiB" is not allowed`},
		"journal_retention":          {with("--journal-retention=-1"), `journal_retention: "-1" is not allowed`},
		"journal_archive_dir":        {with("--journal-archive-dir=/nowhere/at/all"), `journal_archive_dir: stat /nowhere/at/all: no such file or directory; allowed: a folder that exists`},
		"prefetch":                   {with("--prefetch=-1"), `prefetch: "-1" is not allowed; allowed: a whole number of at least 0, or: 1 per slot`},
		"launch_offline":             {with("--launch-offline=true"), `launch_offline: "true" is not allowed; allowed: one of: wait, run`},
		"on_crash":                   {with("--on-crash=rerun"), `on_crash: "rerun" is not allowed; allowed: one of: fail, requeue`},
		"on_stop":                    {with("--on-stop=kill"), `on_stop: "kill" is not allowed; allowed: one of: drain, handover`},
		"unknown flag":               {with("--lancher=x"), "unknown flag --lancher; the nearest known one is --launcher"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseConfig(test.args, nil, t.Output())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			check.Equal(t, exit.Code(err), exit.Usage, "exit code")
		})
	}
}

func TestConfigNothingGiven(t *testing.T) {
	t.Parallel()
	_, err := parseConfig([]string{"--config="}, nil, t.Output())
	for _, key := range []string{"host", "port", "mysql_host", "mysql_port", "mysql_user", "mysql_password", "mysql_database", "launcher"} {
		check.Contains(t, fmt.Sprint(err), key+": required", "the error does not ask for %s: %v", key, err)
	}
}

func TestConfigChoices(t *testing.T) {
	t.Parallel()
	args := with("--prefetch=7", "--launch-offline=run", "--on-crash=requeue", "--max-attempts=5", "--lost-after=1m", "--on-stop=handover", "--poll-interval=2m", "--shutdown-timeout=0", "--max-output-buffer=64KiB", "--log-level-console=trace")
	c := mustParse(t, args, nil)
	want := jobsConfig{
		maxOutputBuffer: 64 << 10, prefetch: 7, pollInterval: 2 * time.Minute,
		launchOffline: true, requeueCrashed: true, maxAttempts: 5, lostAfter: time.Minute, handover: true,
	}
	if c.jobs != want || c.Log.ConsoleLevel != conf.LevelTrace {
		t.Errorf("got %+v and level %v, want %+v and trace", c.jobs, c.Log.ConsoleLevel, want)
	}
}

func TestConfigMasters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args     []string
		want     []string
		warnings int
	}{
		"none":                         {nil, nil, 0},
		"host without a port":          {[]string{"--master-host=a"}, nil, 1},
		"port without a host":          {[]string{"--master-port=7081"}, nil, 0},
		"one":                          {[]string{"--master-host=a", "--master-port=7081"}, []string{"a:7081"}, 0},
		"several, one with a port":     {[]string{"--master-host=a, b:7082,", "--master-port=7081"}, []string{"a:7081", "b:7082"}, 0},
		"only one of them has a port":  {[]string{"--master-host=a, b:7082"}, []string{"b:7082"}, 1},
		"IPv6":                         {[]string{"--master-host=::1, [::2], [::3]:7082", "--master-port=7081"}, []string{"[::1]:7081", "[::2]:7081", "[::3]:7082"}, 0},
		"the same as the worker's own": {[]string{"--master-host=127.0.0.1", "--master-port=7080"}, []string{"127.0.0.1:7080"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, with(test.args...), nil)
			check.Equal(t, cmp.Diff(test.want, c.masters.addresses), "", "(-want +got)")
			check.Equal(t, len(c.Warnings), test.warnings, "warnings %q", c.Warnings)
		})
	}
}

// Regression: an IPv6 address in brackets was passed on with them, and never reached.
func TestConfigMySQLHost(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"db": "db", "::1": "::1", "[::1]": "::1", "/run/mysqld/mysqld.sock": "/run/mysqld/mysqld.sock",
	} {
		c := mustParse(t, with("--store=mysql", "--mysql-host="+given, "--mysql-port=3306", "--mysql-user=u", "--mysql-password=", "--mysql-database=d"), nil)
		if got := c.store.mysql; got.Host != want || got.Port != 3306 {
			t.Errorf("mysql_host = %s: host %s, port %d", given, got.Host, got.Port)
		}
	}
}

// Every configuration that was ever shipped is taken as it stands, without a warning; so is what it
// shows behind a ; as an example.
func TestFormerConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/compat/configuration/jobd-[0-9]*.conf")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %q: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			shipped := installed(t, file)
			c := mustParse(t, []string{"--config", shipped}, nil)
			if len(c.Warnings) > 0 || c.targets["default"] != 4 || c.store.mysql.Database != "site" {
				t.Errorf("warnings %q, targets %v, database %q", c.Warnings, c.targets, c.store.mysql.Database)
			}
			content := must.Get(os.ReadFile(shipped))(t)
			must.Do(t, os.WriteFile(shipped, []byte(withExamples(string(content))), 0o600))
			c = mustParse(t, []string{"--config", shipped}, nil)
			if len(c.Warnings) > 0 || c.targets["video/convert"] != 1 || c.store.mysql.ClaimColumn != "sig" {
				t.Errorf("with its examples: warnings %q, targets %v, claim_column %q", c.Warnings, c.targets, c.store.mysql.ClaimColumn)
			}
		})
	}
}

var shownKey = regexp.MustCompile(`(?m)^; (\[target |[a-z_./]+(\.env\.[A-Z_]+)? = )`)

// withExamples has the keys that a shipped configuration shows behind a ;, but for those of another
// store, folders that are not here, and a name with a quote that does not end.
func withExamples(content string) string {
	content = shownKey.ReplaceAllString(content, "$1")
	for _, own := range []string{
		"store = sqlite", "sqlite_path", "name = the", "launcher.cwd = /srv", "journal_archive_dir", "log_file",
	} {
		content = strings.ReplaceAll(content, "\n"+own, "\n; "+own)
	}
	return content
}

// The template unit gives each worker on a host a name of its own, unless its file does.
func TestEachWorkerOfTheTemplateHasAName(t *testing.T) {
	t.Parallel()
	unit := must.Get(os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", "jobd@.service")))(t)
	_, setting, found := strings.Cut(string(unit), "\nEnvironment=")
	if !found {
		t.Fatal("the template sets no variable")
	}
	setting, _, _ = strings.Cut(setting, "\n")
	for _, specifier := range []string{"%H", "%i"} {
		check.Contains(t, setting, specifier, "is the same for several workers: it has no")
	}
	environ := []string{strings.NewReplacer("%H", "web", "%i", "blue").Replace(setting)}
	host := must.Get(os.Hostname())(t)
	named := filepath.Join(t.TempDir(), "jobd.conf")
	must.Do(t, os.WriteFile(named, []byte("name = mine\n"), 0o600))
	for name, test := range map[string]struct {
		args, environ []string
		want          string
	}{
		"neither":                 {leastFlags(), nil, host},
		"of the template":         {leastFlags(), environ, "web-blue"},
		"an empty one is none":    {leastFlags(), []string{"JOBD_DEFAULT_NAME="}, host},
		"the file's key wins":     {append(leastFlags(), "--config", named), environ, "mine"},
		"the variable's key wins": {leastFlags(), append(environ, "JOBD_NAME=theirs"), "theirs"},
	} {
		c := mustParse(t, append(test.args, "--targets.a=1"), test.environ)
		check.Equal(t, c.name, test.want, "%s: the name is", name)
	}
}

// Regression: a claim_column that is another column of jobd's was taken, and claims wrote their
// tokens over its values.
func TestAClaimColumnThatHoldsSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	mysql := with("--store=mysql", "--mysql-host=/run/mysqld/mysqld.sock", "--mysql-user=u", "--mysql-password=", "--mysql-database=d")
	for _, args := range [][]string{with(), mysql} {
		for _, column := range []string{
			"id", "target", "time_created", "time_started", "time_finished", "status", "result", "return_code", "stdout", "stderr", "TARGET", "Return_Code",
		} {
			_, err := parseConfig(append(args[:len(args):len(args)], "--claim-column="+column), nil, t.Output())
			want := `flag --claim-column: claim_column: "` + column + `" is not allowed: the column holds something else; allowed: sig, or a column of its own`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", column, err, want)
			}
		}
		for _, column := range []string{"sig", "SIG", "claimed_by"} {
			if _, err := parseConfig(append(args[:len(args):len(args)], "--claim-column="+column), nil, t.Output()); err != nil {
				t.Errorf("%s: %v", column, err)
			}
		}
	}
}
