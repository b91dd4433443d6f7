package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/cmd/internal/check"
	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

func TestExecutors(t *testing.T) {
	t.Parallel()
	const text = `launcher = php preload.php
launcher_mode = fork
max_jobs = 500
max_age = 1h
max_memory = 256MiB
idle_timeout = 90
launcher_watch = 1
launcher_secret = "0123456789abcdef"

[targets]
plain = 1
own = 1
less = 1
run = 1
web = 1
fpm = 1
net = 1

[target own]
launcher = node worker.js
launcher_mode = pool
boot_timeout = 2m

[target less]
max_jobs = 0
max_age = 0
max_memory = 0
idle_timeout = 0
launcher_watch = 0

[target run]
launcher = run {id}
launcher_mode = process

[target web]
launcher = https://[::1]:8443/run/{id}?x={id}
launcher_secret = "another one of these"

[target fpm]
launcher = fastcgi:/run/php/fpm.sock /srv/app/job.php

[target net]
launcher = FastCGI:app.example:9000 /srv/app/job.php
`
	c, err := fromFile(t, text, "--launcher=php preload.php", "--launcher.cwd=/")
	if err != nil || len(c.Warnings) > 0 {
		t.Fatal(err, c.Warnings)
	}
	keep := jobexec.Keep{MaxJobs: 500, MaxAge: time.Hour, MaxMemory: 256 << 20, IdleTimeout: 90 * time.Second, BootTimeout: 30 * time.Second, Watch: true}
	longer := keep
	longer.BootTimeout = 2 * time.Minute
	want := map[string]jobexec.Launcher{
		"":     {Mode: jobexec.ModeFork, Words: []string{"php", "preload.php"}, Keep: keep},
		"own":  {Mode: jobexec.ModePool, Words: []string{"node", "worker.js"}, Keep: longer},
		"less": {Mode: jobexec.ModeFork, Words: []string{"php", "preload.php"}, Keep: jobexec.Keep{BootTimeout: 30 * time.Second}},
		"run":  {Words: []string{"run", "{id}"}},
		"web": {
			Mode: jobexec.ModeHTTP, Words: []string{"https://[::1]:8443/run/{id}?x={id}"},
			Service: jobexec.Service{Mode: jobexec.ModeHTTP, URL: "https://[::1]:8443/run/{id}?x={id}", Secret: "another one of these"},
		},
		"fpm": {
			Mode: jobexec.ModeFastCGI, Words: []string{"fastcgi:/run/php/fpm.sock", "/srv/app/job.php"},
			Service: jobexec.Service{Mode: jobexec.ModeFastCGI, Address: "/run/php/fpm.sock", Script: "/srv/app/job.php"},
		},
		"net": {
			Mode: jobexec.ModeFastCGI, Words: []string{"FastCGI:app.example:9000", "/srv/app/job.php"},
			Service: jobexec.Service{Mode: jobexec.ModeFastCGI, Address: "app.example:9000", Script: "/srv/app/job.php"},
		},
	}
	got := map[string]jobexec.Launcher{"": c.launcher.launcher()}
	for name, terms := range c.terms(nil) {
		got[name] = *terms.Launcher
	}
	for name, launcher := range want {
		launcher.Dir, launcher.Env = "/", []string{"PATH=/bin"}
		want[name] = launcher
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSecretOfATargetInAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(path, []byte("hunter2hunter2\n"), 0o600))
	c, err := fromFile(t, "[target a]\nlauncher = http://h/{id}\nlauncher_secret_file = "+path+"\n", "--targets.a=1")
	if err != nil || len(c.Warnings) > 0 {
		t.Fatal(err, c.Warnings)
	}
	if secret := c.terms(nil)["a"].Launcher.Service.Secret; secret != "hunter2hunter2" {
		t.Errorf("secret %q", secret)
	}
	must.Do(t, os.Chmod(path, 0o644))
	_, err = fromFile(t, "[target a]\nlauncher = http://h/{id}\nlauncher_secret_file = "+path+"\n", "--targets.a=1")
	if err == nil || !strings.Contains(err.Error(), ":3: target.a.launcher_secret_file: "+path+": everybody on this host can read or change it (mode 0644)") {
		t.Errorf("error %v", err)
	}
}

func TestExecutorsThatAreWrong(t *testing.T) {
	t.Parallel()
	const url = ":2: target.a.launcher: no request can be sent to its URL; allowed: one URL in visible ASCII, without a name, a password "
	const fastcgi = "; allowed: a socket's path of at most 107 bytes or HOST:PORT, and the script's path, as in: fastcgi:/run/php/fpm.sock /srv/app/job.php"
	const never = "0 for never, whole seconds, or a duration such as 90s, 10m, 1h30m or 30d, from 1s to 36500d"
	for name, test := range map[string]struct{ text, want string }{
		"mode":                    {"launcher_mode = prefork\n", `:2: target.a.launcher_mode: "prefork" is not allowed; allowed: one of: process, fork, pool`},
		"an id in a fork's words": {"launcher = php {id}\nlauncher_mode = fork\n", ":2: target.a.launcher: {id} can't stand in a launcher with launcher_mode = fork: its processes are started before there is a job, and are told of each by a line `run ID …` on descriptor 3; allowed: a command without {id}, whose script reads such lines, as those in examples/launchers do"},
		"a mode beside a URL":     {"launcher = http://h/{id}\nlauncher_mode = process\n", ":3: target.a.launcher_mode: the launcher is a URL, for which there are no modes; allowed: launcher_mode beside a command"},
		"max_jobs":                {"max_jobs = -1\n", `:2: target.a.max_jobs: "-1" is not allowed; allowed: a whole number from 0 to 2147483647`},
		"max_age":                 {"max_age = 0.5\n", `:2: target.a.max_age: "0.5" is not allowed; allowed: ` + never},
		"max_memory":              {"max_memory = 1000\n", `:2: target.a.max_memory: "1000" is not allowed; allowed: 0 for never, or a size such as 256MiB, from 1MiB to 1PiB`},
		"idle_timeout":            {"idle_timeout = -1\n", `:2: target.a.idle_timeout: "-1" is not allowed; allowed: ` + never},
		"boot_timeout":            {"boot_timeout = 0\n", `:2: target.a.boot_timeout: "0" is not allowed; allowed: whole seconds, or a duration such as 90s, 10m, 1h30m or 30d, from 1s to 1h`},
		"an empty secret":         {"launcher_secret = \n", ":2: target.a.launcher_secret: its value is not allowed; allowed: any text but an empty one"},
		"two secrets":             {"launcher_secret = a\nlauncher_secret_file = /a\n", ":3: target.a.launcher_secret_file: target.a.launcher_secret is given, too; allowed: one of the two"},
		"another scheme":          {"launcher = ftp://h/{id}\n", ":2: target.a.launcher: it begins like an address of an unknown kind; allowed: a command, http://HOST/PATH or https://HOST/PATH, and fastcgi:SOCKET SCRIPT"},
		"a URL of no host":        {"launcher = http:///{id}\n", url},
		"an id for a host":        {"launcher = http://{id}/\n", url},
		"a URL that is none":      {"launcher = http://h/%zz{id}\n", url},
		"a port that is none":     {"launcher = http://h:99999/{id}\n", url},
		"a host beyond ASCII":     {"launcher = http://bücher/{id}\n", url},
		"words behind a URL":      {"launcher = http://h/{id} 7hunter\n", ":2: target.a.launcher: words follow its URL, which jobd would not use; allowed: one URL"},
		"a URL with a password":   {"launcher = http://u:p@h/{id}\n", url},
		"a URL with a fragment":   {"launcher = \"http://h/{id}#x\"\n", url},
		"FastCGI alone":           {"launcher = fastcgi:/run/fpm.sock\n", ":2: target.a.launcher: the script must follow the address, as one word that begins with /" + fastcgi},
		"FastCGI, an id":          {"launcher = fastcgi:/run/fpm.sock /a/{id}.php\n", ":2: target.a.launcher: remove {id}: the script gets it as JOBD_ID and as the query string" + fastcgi},
		"FastCGI, two slashes":    {"launcher = fastcgi://h:9000 /a.php\n", ":2: target.a.launcher: its address is invalid" + fastcgi},
		"FastCGI, no port":        {"launcher = fastcgi:h /a.php\n", ":2: target.a.launcher: its address is invalid" + fastcgi},
		"FastCGI, a near socket":  {"launcher = fastcgi:run/fpm.sock /a.php\n", ":2: target.a.launcher: its address is invalid" + fastcgi},
		"FastCGI, a long socket":  {"launcher = fastcgi:/" + strings.Repeat("x", 107) + " /a.php\n", ":2: target.a.launcher: its address is invalid" + fastcgi},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fromFile(t, "[target a]\n"+test.text, "--targets.a=1")
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// Nobody is connected to: a service that is not there holds up the jobs that need it.
func TestServicesAreLookedAt(t *testing.T) {
	t.Parallel()
	c := must.Get(fromFile(t, "launcher_mode = fork\n[targets]\naway = 1\n[target away]\nlauncher = fastcgi:/nowhere /x\n", "--launcher=/bin/echo"))(t)
	if err := c.checkLaunchers(); err != nil {
		t.Errorf("a start would end with %v", err)
	}
	want := []check.Finding{
		{What: "launcher", Detail: "/bin/echo can be executed in " + workingDir(t) + "; launcher_mode is fork, which only a start can try"},
		{What: "launcher of [target away]", Detail: "jobs are requests to a FastCGI server"},
	}
	if diff := cmp.Diff(want, c.findLaunchers(false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                          {"  ", nil},
		"plain words":                      {" php  job.php\t{id} ", []string{"php", "job.php", "{id}"}},
		"double quotes":                    {`run "a b" {id}`, []string{"run", "a b", "{id}"}},
		"single quotes":                    {`run 'a "b" \' {id}`, []string{"run", `a "b" \`, "{id}"}},
		"quotes in a word":                 {`--name="a b"c`, []string{"--name=a bc"}},
		"empty word":                       {`run "" ''`, []string{"run", "", ""}},
		"escaped space":                    {`a\ b c`, []string{"a b", "c"}},
		"escaped quote in double quotes":   {`"a\"b"`, []string{`a"b`}},
		"other backslash in double quotes": {`"a\nb"`, []string{`a\nb`}},
		"nothing is replaced":              {`$HOME * ~ $(id) {id}`, []string{"$HOME", "*", "~", "$(id)", "{id}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := must.Get(splitWords(test.text))(t)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLauncherWords(t *testing.T) {
	t.Parallel()
	const command = `--launcher=sh -c "run {id}"`
	spaces := mustParse(t, with(command), nil).launcher.words
	if diff := cmp.Diff([]string{"sh", "-c", `"run`, `{id}"`}, spaces); diff != "" {
		t.Errorf("at spaces (-want +got):\n%s", diff)
	}
	shell := mustParse(t, with(command, "--launcher-split=shell"), nil).launcher.words
	if diff := cmp.Diff([]string{"sh", "-c", "run {id}"}, shell); diff != "" {
		t.Errorf("as a shell (-want +got):\n%s", diff)
	}
}

// Pitfall 33: jobs do not get jobd's own variables.
func TestPitfall33LauncherEnvironment(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "JOBD_MYSQL_PASSWORD=secret", "JOBD_=x", "JOBDIR=/srv", "EMPTY=", "LANG=C"}
	args := with("--launcher.env.LANG=en", "--launcher.env.JOBD_HINT=mine", "--launcher.env.lang=de")
	got := mustParse(t, args, environ).launcher.env
	want := []string{"PATH=/bin", "JOBDIR=/srv", "EMPTY=", "LANG=en", "JOBD_HINT=mine", "lang=de"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What jobd finds wrong about values that could be decoded repeats no password either.
func TestConfigErrorsRepeatNoPassword(t *testing.T) {
	t.Parallel()
	mysql := []string{"--store=mysql", "--mysql-host=db", "--mysql-port=1", "--mysql-user=u", "--mysql-database=d"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"launcher":     {with("--launcher-split=shell", "--launcher='' --login hunter2 {id}"), "launcher: its value is not allowed; allowed: a command"},
		"mysql_table":  {with(append(mysql, "--mysql-table=a.b.hunter2")...), "mysql_table: its value is not allowed; allowed: table or database.table"},
		"master_host":  {with("--master-host=a:hunter2"), "master_host: its value is not allowed; allowed: names"},
		"claim_column": {with("--claim-column=status"), `claim_column: "status" is not allowed: the column holds something else`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := parseConfig(test.args, []string{"JOBD_MYSQL_PASSWORD=hunter2"}, t.Output())
			if said := fmt.Sprint(err, c.Warnings); !strings.Contains(said, test.want) || strings.Contains(said, "hunter2") {
				t.Errorf("told is %s; want %q", said, test.want)
			}
		})
	}
}
