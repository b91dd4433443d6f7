package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/journal/archive"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Pitfall 38: no password needs to be in argv, and none is told in a warning or an error.
func TestPitfall38PasswordsStayOutOfSight(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	path := filepath.Join(t.TempDir(), "jobd.conf")
	text := "mysql_pasword = " + secret + "\npassword " + secret + "\nport = x\n[mysql_password = " + secret + "\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	environ := []string{"JOBD_PASSWORD=" + secret, "JOBD_MYSQL_PASSWORD=" + secret}
	c, err := parseConfig([]string{"--config", path}, environ, t.Output())
	if err == nil {
		t.Fatal("no error, want one")
	}
	if c.Listen.Password != secret || c.store.mysql.Password != secret {
		t.Errorf("passwords of the environment are not taken: %+v", c)
	}
	if said := fmt.Sprint(err, c.Warnings); strings.Contains(said, "= "+secret) || strings.Contains(said, `"`+secret) {
		t.Errorf("a password is told:\n%s", said)
	}
	for _, variable := range c.launcher.env {
		if strings.Contains(variable, secret) {
			t.Errorf("a job would get %s", variable)
		}
	}
}

func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "packaging", "jobd.conf")
	if c := mustParse(t, []string{"--config", installed(t, path)}, nil); len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	content := must.Get(os.ReadFile(path))(t)
	commented(t, string(content))
	var help strings.Builder
	if _, err := parseConfig([]string{"--help"}, nil, &help); exit.Code(err) != exit.Success {
		t.Fatal(err)
	}
	docs := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md")))(t)
	for _, key := range append(keysOfHelp(help.String()), keysOfTargets()...) {
		check.Contains(t, string(content), key+" = ", "%s does not show the key %s", path, key)
		check.Contains(t, string(docs), "`"+key+"`", "docs/configuration.md does not describe the key %s", key)
	}
}

// commented has everything read that the shipped file shows behind a ;, too, but for the keys of
// another store, and those of which one of two is allowed.
func commented(t *testing.T, content string) {
	t.Helper()
	example := regexp.MustCompile(`(?m)^; (\[target |[a-z_./]+(\.env\.[A-Z_]+)? = )`)
	content = example.ReplaceAllString(content, "$1")
	for _, own := range []string{"store = sqlite", "sqlite_path", "name = the", "launcher.cwd = /srv", "journal_archive_dir", "log_file", "password_file", "mysql_password_file", "launcher_secret_file"} {
		content = strings.ReplaceAll(content, "\n"+own, "\n; "+own)
	}
	path := filepath.Join(t.TempDir(), "jobd.conf")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	if c := mustParse(t, []string{"--config", path}, nil); len(c.Warnings) > 0 || len(c.sections) == 0 || !again(c.time.uses) {
		t.Errorf("warnings %q, sections %v, columns %v", c.Warnings, c.sections, c.time.uses)
	}
}

// keysOfTargets are the keys of a target's section.
func keysOfTargets() (keys []string) {
	set := conf.New(about())
	new(config).Register(set)
	for _, key := range set.Keys() {
		if name, found := strings.CutPrefix(key.Name, "[target NAME] "); found && !strings.HasSuffix(name, "NAME") {
			keys = append(keys, name)
		}
	}
	return keys
}

// keysOfHelp is the keys whose flags the help lists.
func keysOfHelp(help string) []string {
	var keys []string
	flagsAlone := []string{"config", "check", "help", "version", "verbose"}
	for line := range strings.Lines(help) {
		flag, isFlag := strings.CutPrefix(line, "  --")
		flag, _, _ = strings.Cut(flag, " ")
		if isFlag && !strings.Contains(flag, "NAME") && !slices.Contains(flagsAlone, flag) {
			keys = append(keys, strings.ReplaceAll(flag, "-", "_"))
		}
	}
	return keys
}

func TestVersionAlone(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	_, err := parseConfig([]string{"--version"}, nil, &out)
	if exit.Code(err) != exit.Success || err == nil {
		t.Errorf("error %v", err)
	}
	var major, minor, patch int
	if n, _ := fmt.Sscanf(out.String(), "%d.%d.%d\n", &major, &minor, &patch); n != 3 {
		t.Errorf("printed %q, want a version alone", out.String())
	}
}

// What was hardly meant is taken as ever, and told with its line; what never worked is refused.
func TestConfigOddValues(t *testing.T) {
	t.Parallel()
	const least = "port = 0\nlauncher = run {id}\nstore = sqlite\nsqlite_path = x\nhost = "
	const server = "host = ::1\nport = 0\nlauncher = run {id}\nmysql_user = u\nmysql_password = x\nmysql_database = d\nmysql_port = 3306\n"
	for name, test := range map[string]struct{ text, warning, problem string }{
		"open to all":                    {text: least + "0.0.0.0", warning: ":5: host: it listens beyond this host, and there is no password"},
		"open to all, by name":           {text: least + "web-1", warning: ":5: host: it listens beyond this host"},
		"open, with a long password":     {text: least + "::\npassword = sixteen-letters!"},
		"open, with a short password":    {text: least + "::\npassword = fifteen-letters", warning: ":6: password: it has fewer than 16 characters, and others reach the port"},
		"a short password for this host": {text: least + "127.0.0.1\npassword = x"},
		"open to this host":              {text: least + "127.1.2.3"},
		"open to this host, by name":     {text: least + "localhost"},
		"host with a port":               {text: least + "127.0.0.1:7080", problem: `:5: host: "127.0.0.1:7080" is not allowed; allowed: one name or address; a port belongs to the key port`},
		"mysql_host with a port":         {text: server + "mysql_host = db:3306", problem: `:8: mysql_host: "db:3306" is not allowed; allowed: one name or address; a port belongs to the key mysql_port`},
		"mysql_host as a URL":            {text: server + "mysql_host = mysql://u:hunter2@db/x", problem: `:8: mysql_host: its value is not allowed`},
		"mysql_host as a socket":         {text: server + "mysql_host = /run/mysqld/mysqld.sock"},
		"another store's key":            {text: server + "mysql_host = db\nsqlite_path = x", warning: ":9: sqlite_path: it is not used"},
		"a master twice":                 {text: least + "::1\nmaster_port = 1\nmaster_host = a, b, a:1", warning: `:7: master_host: "a:1" stands there twice`},
		"masters with blanks only":       {text: least + "::1\nmaster_port = 1\nmaster_host = a b", warning: ":7: master_host: one entry is neither a name nor an address, and is not used"},
		"a master with a password in it": {text: least + "::1\nmaster_port = 1\nmaster_host = u:hunter2@b:1", warning: ":7: master_host: one entry is neither a name nor an address, and is not used"},
		"so many jobs":                   {text: least + "::1\n[targets]\nb = 1000000", warning: ":7: targets.b: 1000000 jobs may run at once"},
		"retention in bare days":         {text: least + "::1\njournal_retention = 30", warning: ":6: journal_retention: history is removed after 30s; a number without a unit means seconds, 30d means days"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobd.conf")
			must.Do(t, os.WriteFile(path, []byte(test.text), 0o600))
			c, err := parseConfig([]string{"--config", path, "--targets.a=1"}, nil, t.Output())
			problem, warning := fmt.Sprint(err), strings.Join(c.Warnings, "\n")
			if err == nil {
				problem = ""
			}
			if test.problem != "" && !strings.Contains(problem, path+test.problem) || test.problem == "" && problem != "" {
				t.Errorf("error %q, want %q", problem, test.problem)
			}
			if test.warning != "" && !strings.Contains(warning, path+test.warning) || test.problem == "" && test.warning == "" && warning != "" {
				t.Errorf("warnings %q, want %q", warning, test.warning)
			}
			if strings.Contains(problem+warning, "hunter2") {
				t.Errorf("a password is told: %s %s", problem, warning)
			}
		})
	}
}

// A target has the common account unless it has a user of its own, whose group the common one is not. What
// is said of the environment counts before what the account says.
func TestAccounts(t *testing.T) {
	t.Parallel()
	c, err := fromFile(t, `launcher.user = daemon
launcher.group = 20001
launcher.env.HOME = /common
launcher.env.USER = u
[targets]
same = 1
other = 1
group = 1
root = 1
service = 1
[target same]
launcher.cwd = /
[target other]
launcher.user = 20002
launcher.group = 20003
launcher.env.USER = v
[target group]
launcher.group = root
[target root]
launcher.user = root
[target service]
launcher = http://h/{id}
`)
	if err != nil {
		t.Fatal(err)
	}
	daemon := func(group uint32) *proc.Account {
		return &proc.Account{Name: "daemon", UID: 1, GID: group, Groups: []uint32{1}}
	}
	env := func(home, user, name string) []string {
		return []string{"PATH=/bin", "LOGNAME=" + name, "SHELL=/bin/sh", "HOME=" + home, "USER=" + user}
	}
	terms := c.terms(nil)
	for name, test := range map[string]struct {
		launcher jobexec.Launcher
		account  *proc.Account
		env      []string
	}{
		"common": {c.launcher.launcher(), daemon(20001), env("/common", "u", "daemon")},
		"same":   {*terms["same"].Launcher, daemon(20001), env("/common", "u", "daemon")},
		"other":  {*terms["other"].Launcher, &proc.Account{Name: "20002", UID: 20002, GID: 20003}, env("/common", "v", "20002")},
		"group":  {*terms["group"].Launcher, daemon(0), env("/common", "u", "daemon")},
		"root":   {*terms["root"].Launcher, &proc.Account{Name: "root", Groups: []uint32{0}}, env("/common", "u", "root")},
	} {
		check.Equal(t, cmp.Diff(test.account, test.launcher.Account), "", "%s", name)
		check.Equal(t, cmp.Diff(test.env, test.launcher.Env), "", "%s", name)
	}
	if account := terms["service"].Launcher.Account; account != nil {
		t.Errorf("a service has account %v", account)
	}
	c, err = fromFile(t, "launcher.user = daemon\n[targets]\na = 1\n")
	if got, want := c.launcher.env, []string{"PATH=/bin", "HOME=/usr/sbin", "LOGNAME=daemon", "USER=daemon", "SHELL=/bin/sh"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("environment %v, %v; want %v", got, err, want)
	}
}

func TestAccountsThatAreWrong(t *testing.T) {
	t.Parallel()
	const root = "; allowed: another account, or the word root"
	for name, test := range map[string]struct{ text, want string }{
		"nobody's name":   {"launcher.user = no-such\n", ":1: launcher.user: /etc/passwd has no account of that name; allowed: one that it has, or a uid"},
		"root's uid":      {"launcher.user = 0\n", ":1: launcher.user: that is root" + root},
		"below all uids":  {"launcher.user = -1\nlauncher.group = 1\n", ":1: launcher.user: /etc/passwd has no account of that name"},
		"a uid, no group": {"launcher.user = 20001\n", ":1: launcher.user: /etc/passwd has no uid 20001, and does not tell its group; give launcher.group, too"},
		"no group's name": {"launcher.user = daemon\nlauncher.group = no-such\n", ":2: launcher.group: /etc/group has no group of that name; allowed: one that it has, or a gid"},
		"root's gid":      {"launcher.user = daemon\nlauncher.group = 0\n", ":2: launcher.group: that is root's group; allowed: another one, or the word root"},
		"a group alone":   {"launcher.group = daemon\n", ":1: launcher.group: it is for launcher.user, which is not given; give that, too"},
		"of a target":     {"[target a]\nlauncher.user = no-such\n", ":2: target.a.launcher.user: /etc/passwd has no account of that name"},
		"of a URL":        {"[target a]\nlauncher = http://h/{id}\nlauncher.user = daemon\n", ":3: target.a.launcher.user: the launcher is a URL, whose jobs have the account of the service; it is allowed only beside a command"},
		"of a FastCGI":    {"[target a]\nlauncher = fastcgi:/s /x\nlauncher.group = daemon\n", ":3: target.a.launcher.group: the launcher is a FastCGI server, whose jobs have the account of the service"},
		"empty":           {"launcher.user =\n", ":1: launcher.user: "},
	} {
		_, err := fromFile(t, test.text, "--targets.a=1")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		} else if strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: more than one line: %v", name, err)
		}
	}
}

// Jobs of another account that reach an open port are no apart: who sets that up is warned.
func TestAnOpenPortBesideAccountsIsWarnedOf(t *testing.T) {
	t.Parallel()
	const account = "[target a]\nlauncher.user = daemon\n"
	for name, test := range map[string]struct {
		lines  string
		warned bool
	}{
		"open":                   {account, true},
		"with a password":        {"password = sixteen-letters!\n" + account, false},
		"with principals":        {"principals_file = /p\n" + account, false},
		"localhost needs none":   {"password = sixteen-letters!\nalways_allow_localhost = 1\n" + account, true},
		"no account of its own":  {"", false},
		"the common one is told": {"launcher.user = daemon\n", true},
	} {
		c := must.Get(fromFile(t, "host = 127.0.0.1\nport = 7080\n"+test.lines, "--targets.a=1"))(t)
		if warned := slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "jobs can command the worker") }); warned != test.warned {
			t.Errorf("%s: warned %v, want %v: %q", name, warned, test.warned, c.Warnings)
		}
	}
}

// A misspelt key of the launcher is refused, above all sections and in a target's: passed over, jobs would have
// rights that the file denies them. A key that is like none is warned of, as everywhere.
func TestAMisspeltKeyOfTheLauncherIsRefused(t *testing.T) {
	t.Parallel()
	const targets = "[targets]\na = 1\n"
	for file, want := range map[string]string{
		"launcher.usr = daemon\n" + targets:                  "unknown key launcher.usr; the nearest known one is launcher.user; a key of the launcher",
		"Launcher.User = daemon\n" + targets:                 "unknown key Launcher.User; the nearest known one is launcher.user",
		"launchre.user = daemon\n" + targets:                 "launcher.user",
		"launcher_user2 = daemon\n" + targets:                "launcher.user",
		"launcher.grop = daemon\n" + targets:                 "launcher.group",
		targets + "[target a]\nlauncher.user_ = daemon\n":    "unknown key launcher.user_; the nearest known one is launcher.user",
		"launcher.something_else = 1\n" + targets:            "",
		"launcher.env.usr = 1\nlaunchre.usr = 1\n" + targets: "",
	} {
		if _, err := fromFile(t, file); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func lookup(environ map[string]string) func(string) string {
	return func(name string) string { return environ[name] }
}

func TestJournalCandidates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		worker  string
		config  journalConfig
		environ map[string]string
		want    []string
	}{
		"configured": {
			"w", journalConfig{Journal: jobdaemon.Journal{Dir: "/j"}}, map[string]string{"STATE_DIRECTORY": "/s", "HOME": "/h"}, []string{"/j"},
		},
		"systemd": {
			"w", journalConfig{}, map[string]string{"STATE_DIRECTORY": "/s:/t", "HOME": "/h"}, []string{"/s"},
		},
		"home": {
			"w", journalConfig{}, map[string]string{"HOME": "/h"}, []string{"/var/lib/jobd/w", "/h/.local/state/jobd/w"},
		},
		"state home": {
			"w", journalConfig{}, map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/x"}, []string{"/var/lib/jobd/w", "/x/jobd/w"},
		},
		"no home":                  {"w", journalConfig{}, nil, []string{"/var/lib/jobd/w"}},
		"a name that leads away":   {"../../etc", journalConfig{}, nil, []string{"/var/lib/jobd/.._.._etc"}},
		"a name that leads upward": {"..", journalConfig{}, nil, []string{"/var/lib/jobd/__"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.config.candidates(test.worker, lookup(test.environ))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJournalDirIsMadePrivate(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	must.Do(t, os.Mkdir(open, 0o755))
	for name, dir := range map[string]string{
		"new, with its parents": filepath.Join(t.TempDir(), "a", "b", "c"),
		"open to others":        open,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := journalConfig{Journal: jobdaemon.Journal{Dir: dir}}
			got, err := c.makeDir("w", lookup(nil))
			if err != nil || got != dir {
				t.Fatalf("got %q, %v, want %q", got, err, dir)
			}
			info := must.Get(os.Stat(dir))(t)
			check.Equal(t, info.Mode(), fs.ModeDir|0o700, "mode")
		})
	}
}

// The folders here are all below t.TempDir: the tests may run as root, which
// could change a folder anywhere else.
func TestJournalDirThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, test := range map[string]struct{ dir, want string }{
		"a file":        {file, file + ": not a folder"},
		"below a file":  {filepath.Join(file, "x"), file + ": not a directory"},
		"name too long": {filepath.Join(t.TempDir(), strings.Repeat("n", 300)), "file name too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := journalConfig{Journal: jobdaemon.Journal{Dir: test.dir}}
			_, err := c.makeDir("w", lookup(nil))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "give one with the key journal_dir") {
				t.Errorf("error %v, want %q and the key", err, test.want)
			}
		})
	}
}

// Whoever owns the journal's folder could have a worker of root write anywhere, by links.
func TestJournalDirOfAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another account")
	}
	dir := filepath.Join(t.TempDir(), "journal")
	must.Do(t, errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 12345, -1)))
	c := journalConfig{Journal: jobdaemon.Journal{Dir: dir}}
	if _, err := c.makeDir("w", lookup(nil)); err == nil || !strings.Contains(err.Error(), "belongs to the account 12345") {
		t.Errorf("error %v", err)
	}
	info := must.Get(os.Stat(dir))(t)
	check.Equal(t, info.Mode().Perm(), 0o755, "its mode was changed: %v", info)
}

// A connection of the same place is ended as one of a dead process: another folder is another place, be it
// a copy of the journal, and where there is no lock nobody knows.
func TestPlacesAreOfOneFolder(t *testing.T) {
	t.Parallel()
	one, copied, none := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{one, copied} {
		must.Do(t, os.WriteFile(filepath.Join(dir, archive.LockFile), nil, 0o600))
	}
	place := placeOf(one)
	if place == "" || placeOf(one) != place {
		t.Errorf("the place is %q, and %q a moment later", place, placeOf(one))
	}
	if placeOf(copied) == place {
		t.Errorf("a copy of the journal has the same place: %s", place)
	}
	check.Equal(t, placeOf(none), "", "without a lock the place is")
}
