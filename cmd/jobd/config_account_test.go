package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
)

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
		if diff := cmp.Diff(test.account, test.launcher.Account); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(test.env, test.launcher.Env); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
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
	const root = "; allowed is another account, or the word root"
	for name, test := range map[string]struct{ text, want string }{
		"nobody's name":      {"launcher.user = no-such\n", ":1: launcher.user: there is no account of that name in /etc/passwd; allowed is one of there, or a uid"},
		"root's uid":         {"launcher.user = 0\n", ":1: launcher.user: that is root" + root},
		"root's uid, longer": {"launcher.user = 00\n", ":1: launcher.user: that is root" + root},
		"no uid":             {"launcher.user = 4294967295\nlauncher.group = 1\n", ":1: launcher.user: there is no account of that name"},
		"below all uids":     {"launcher.user = -1\nlauncher.group = 1\n", ":1: launcher.user: there is no account of that name"},
		"a uid, no group":    {"launcher.user = 20001\n", ":1: launcher.user: /etc/passwd has no uid 20001, and does not tell its group; give launcher.group, too"},
		"no group's name":    {"launcher.user = daemon\nlauncher.group = no-such\n", ":2: launcher.group: there is no group of that name in /etc/group; allowed is one of there, or a gid"},
		"root's gid":         {"launcher.user = daemon\nlauncher.group = 0\n", ":2: launcher.group: that is root's group; allowed is another one, or the word root"},
		"a group alone":      {"launcher.group = daemon\n", ":1: launcher.group: it is for launcher.user, which is not given; give that, too"},
		"of a target":        {"[target a]\nlauncher.user = no-such\n", ":2: target.a.launcher.user: there is no account of that name"},
		"of a URL":           {"[target a]\nlauncher = http://h/{id}\nlauncher.user = daemon\n", ":3: target.a.launcher.user: the launcher is a URL, whose jobs have the account of the service; it is allowed only beside a command"},
		"of a FastCGI":       {"[target a]\nlauncher = fastcgi:/s /x\nlauncher.group = daemon\n", ":3: target.a.launcher.group: the launcher is a FastCGI server, whose jobs have the account of the service"},
		"empty":              {"launcher.user =\n", ":1: launcher.user: "},
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
		c, err := fromFile(t, "host = 127.0.0.1\nport = 7080\n"+test.lines, "--targets.a=1")
		if err != nil {
			t.Fatal(err)
		}
		if warned := slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "they can command the worker") }); warned != test.warned {
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
		"launcher.usr = daemon\n" + targets:                  "unknown key launcher.usr; the nearest known one is launcher.user; keys of the launcher",
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
