package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/check"
	jobexec "jobd/exec"
)

// A script that is not there would be seen only when jobs come, or processes are started: --check
// warns of it.
func TestCheckWarnsOfAScriptThatIsNotThere(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "jobs.php")
	found := func(settings string) check.Finding {
		t.Helper()
		c, err := fromFile(t, settings, "--targets.a=1", "--launcher=/bin/sh "+script+" -x")
		if err != nil {
			t.Fatal(err)
		}
		return c.findLaunchers(t.Context(), false)[0]
	}
	if f := found("launcher_mode = pool\n"); f.Level != check.Warning || !strings.Contains(f.Detail, "there is no file "+script) || f.Remedy == "" || f.Ends {
		t.Errorf("a pool without its script: %+v", f)
	}
	if f := found(""); f.Level != check.Warning || !strings.Contains(f.Detail, "there is no file "+script) || !strings.Contains(f.Remedy, "each job fails") || f.Ends {
		t.Errorf("a process without its script: %+v", f)
	}
	if err := os.WriteFile(script, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, settings := range []string{"", "launcher_mode = pool\n"} {
		if f := found(settings); f.Level != check.OK || f.Remedy != "" {
			t.Errorf("with its script, and %q: %+v", settings, f)
		}
	}
}

// What a command names is its script only where it looks so: arguments that are no files, or not
// yet, or files elsewhere, are no reason for a warning.
func TestMissingScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"job.php", "artisan"} {
		if err := os.WriteFile(here(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	named := func(l jobexec.Launcher) string {
		if i := missingScript(l); i > 0 {
			return inFolder(l.Dir, l.Words[i])
		}
		return ""
	}
	for command, want := range map[string]string{
		"php " + here("jobz.php") + " {id}":                      here("jobz.php"),
		"php jobz.php {id}":                                      here("jobz.php"),
		"php -d memory_limit=1G src/jobz.php {id}":               here("src/jobz.php"),
		"nice -n 5 /bin/sh " + here("none") + " {id}":            here("none"),
		"node --max-old-space-size=512 ~/job.js {id}":            here("~/job.js"),
		"php job.php {id}":                                       "",
		"php " + here("job.php") + " {id} --log /none/out.log":   "",
		"php " + here("job.php") + " --log /none/out.log {id}":   "",
		"php " + here("artisan") + " jobs:run {id} /none":        "",
		"php artisan jobs:run {id}":                              "",
		"convert /none/{id}.png":                                 "",
		"php -r require('/none/a.php');f({id}) none.php":         "",
		"curl http://h/none.php?id={id}":                         "",
		"curl http://h/none.php":                                 "",
		"java -cp /none/a.jar:/none/b.jar Main {id}":             "",
		"docker exec app php /var/www/none.php {id}":             "",
		"sudo chroot /jail php /none.php {id}":                   "",
		"env --chdir=/srv php none.php {id}":                     "",
		"env -C / php none.php {id}":                             "",
		"python3 -m none.jobs {id}":                              "",
		"run --config=/none/app.ini none.php {id}":               "",
		"flock /none/lock run.sh {id}":                           "",
		"flock /none/lock php none.php {id}":                     here("none.php"),
		"nice -n 10 run.sh {id}":                                 "",
		"node -r dotenv/config.js " + here("job.php") + " {id}":  "",
		"strace -o /none/trace php " + here("job.php") + " {id}": "",
		"curl --unix-socket /none/socket http://h/{id}":          "",
		"run {id}": "",
		"run":      "",
	} {
		if got := named(jobexec.Launcher{Words: strings.Fields(command), Dir: dir}); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	code := jobexec.Launcher{Words: []string{"sh", "-c", "/none/run.sh {id} || php /none/other.php"}, Dir: dir}
	request := jobexec.Launcher{Mode: jobexec.ModeFastCGI, Words: []string{"fastcgi:/run/php.sock", "/none/job.php"}}
	if got := named(code) + named(request); got != "" {
		t.Errorf("code and requests: %q", got)
	}
}

// A FastCGI server answers 404 for a script that is not there, and each job fails for good.
func TestAScriptThatAFastCGIServerLacks(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "job.php")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for launcher, want := range map[string]string{
		"fastcgi:/run/fpm.sock " + there:          "",
		"fastcgi:/run/fpm.sock /none/job.php":     "launcher: there is no file /none/job.php on this host, which the FastCGI server is to run; it must be there where that server sees it",
		"fastcgi:127.0.0.1:9000 /none/job.php":    "", // which may be a forwarded port
		"http://127.0.0.1:9000/none/job.php/{id}": "",
	} {
		c, err := fromFile(t, "[targets]\na = 1\n", "--launcher="+launcher)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.missingScripts(), "\n"); got != want {
			t.Errorf("%s: %q, want %q", launcher, got, want)
		}
	}
}

// A start and a reload warn of it, too, each launcher by its section; a target that has none of its
// own says nothing more.
func TestMissingScriptsOfTargets(t *testing.T) {
	t.Parallel()
	c, err := fromFile(t, "[targets]\na = 1\nb = 1\n[target a]\nlauncher = php /none/own.php {id}\n[target b]\ntimeout = 1\nmax_age = 0\n", "--launcher=php /none/job.php {id}")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"launcher: there is no file /none/job.php, which its command names",
		"launcher of [target a]: there is no file /none/own.php, which its command names",
	}
	if diff := cmp.Diff(want, c.missingScripts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
