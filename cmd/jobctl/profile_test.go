package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// profilesFile writes a home with a .jobctl.conf.
func profilesFile(t *testing.T, content string) (environ []string, path string) {
	t.Helper()
	home := t.TempDir()
	path = filepath.Join(home, ".jobctl.conf")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return []string{"HOME=" + home}, path
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "worker's", map[string]any{"poll": "ok"})
	master := startDaemon(t, "worker's", map[string]any{"poke": "ok"})
	plain := startDaemon(t, "", map[string]any{"poll": "ok"})
	environ, _ := profilesFile(t, fmt.Sprintf("port = %s\nlog_level = error\n[prod]\nhost = 127.0.0.1\nport = %s\nmaster_port = %s\npassword = worker's\n[fleet]\nmaster = 1\nport = %[3]s\npassword = worker's\n[empty]\n",
		plain.port, worker.port, master.port))
	ok := output{out: "ok\n"}
	for args, want := range map[string]output{
		"poll":                  ok, // the keys above all sections
		"@prod poll":            ok,
		"poll @prod":            ok,
		"poll -- @prod":         ok, // a target of that name
		"@prod --master poke":   {code: 2, err: "jobctl: poke: needs at least one target\n"},
		"@prod --master poke a": ok,
		"poke a --master @prod": ok,
		"@fleet poke a":         ok,
		"@prod @prod poll":      ok,
		"@prod @fleet poll":     {code: 2, err: "jobctl: profiles @prod and @fleet: only one can be meant; a word that begins with @ stands behind --\n"},
		"@ poll":                {code: 2, err: "jobctl: a profile has a name, as in @prod; a word that is only @ stands behind --\n"},
	} {
		if got := (jobctl{environ: environ}).run(t, strings.Fields(args)...); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
	if asked := plain.asked(); len(asked) != 2 || !strings.Contains(strings.Join(asked, "\n"), `["@prod"]`) {
		t.Errorf("the worker without a profile was asked %q", asked)
	}
}

func TestUnknownProfiles(t *testing.T) {
	t.Parallel()
	environ, path := profilesFile(t, "[prod]\nhost = a\n[dev]\nhost = b\n")
	none, emptyPath := profilesFile(t, "host = a\n")
	missing := []string{"HOME=" + t.TempDir()}
	for name, test := range map[string]struct {
		environ []string
		args    []string
		want    string
	}{
		"a slip of the pen": {environ, []string{"@prdo", "status"}, "there is no profile @prdo in " + path + "; the nearest known one is @prod; there are: @prod, @dev"},
		"no such":           {environ, []string{"status", "@staging"}, "there is no profile @staging in " + path + "; there are: @prod, @dev"},
		"none at all":       {none, []string{"@prod", "status"}, "there is no profile @prod in " + emptyPath + "; it has none; a profile is a section such as [prod], with the keys host, port, master, master_port, password"},
		"no file":           {missing, []string{"@prod", "status"}, "(no such file now); it has none; a profile is a section"},
		"another file":      {environ, []string{"@prod", "status", "--config", "/no/file"}, "config /no/file: no such file"},
		"in the profile":    {environ, []string{"@prod", "status", "--port=x"}, `flag --port: port: "x" is not allowed`},
	} {
		got := jobctl{environ: test.environ}.run(t, test.args...)
		if got.code != 2 || !strings.Contains(got.err, test.want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
	// The help needs no profile, and no file.
	if got := (jobctl{environ: missing}).run(t, "@prod", "help", "status"); got.code != 0 || !strings.HasPrefix(got.out, "usage: jobctl [flags] status") {
		t.Errorf("%+v", got)
	}
}

// logged is what stands before a warning.
var logged = regexp.MustCompile(`(?m)^\S+ \S+ WRN configuration: `)

// A password goes to the host beside which it stands, and to no other.
func TestPasswordsOfProfilesGoNowhereElse(t *testing.T) {
	t.Parallel()
	closed := startDaemon(t, "right", map[string]any{"poll": "ok"})
	environ, path := profilesFile(t, fmt.Sprintf("password = right\n[prod]\nport = %s\n[other]\nport = %[1]s\npassword = right\n", closed.port))
	needed := "jobctl: 127.0.0.1:" + closed.port + ": a password or token is needed; give it in ~/.jobctl.conf, as JOBCTL_PASSWORD or with --password\n"
	for name, test := range map[string]struct {
		environ []string
		stdin   string
		args    string
		want    output
	}{
		"that above the sections":    {args: "@prod poll", want: output{code: 1, err: needed}},
		"its own":                    {args: "@other poll", want: output{out: "ok\n"}},
		"to another host":            {args: "@other --host localhost poll", want: output{code: 1, err: "warning: flag --host: host: the password of @other is not sent to a host that the command line names; --password asks for one\n" + strings.Replace(needed, "127.0.0.1", "localhost", 1)}},
		"asked for":                  {args: "@other --host localhost poll --password", stdin: "right\n", want: output{out: "ok\n"}},
		"of the environment":         {environ: []string{"JOBCTL_PASSWORD=right"}, args: "@prod poll", want: output{code: 1, err: "warning: environment JOBCTL_PASSWORD: not used with the profile @prod, which alone says where to go\n" + needed}},
		"the environment's host":     {environ: []string{"JOBCTL_HOST=10.255.255.1", "JOBCTL_OUTPUT=json"}, args: "@other poll", want: output{out: "\"ok\"\n", err: "warning: environment JOBCTL_HOST: not used with the profile @other, which alone says where to go\n"}},
		"without a profile, as ever": {environ: []string{"JOBCTL_PORT=" + closed.port}, args: "poll", want: output{out: "ok\n"}},
	} {
		got := jobctl{environ: append(test.environ, environ...), stdin: test.stdin}.run(t, strings.Fields(test.args)...)
		got.err = logged.ReplaceAllString(got.err, "warning: ")
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	must.Do(t, os.Chmod(path, 0o644))
	for profile, secret := range map[string]string{"@prod": "password", "@other": "password"} {
		if got := (jobctl{environ: environ}).run(t, profile, "poll"); !strings.Contains(got.err, "everybody on this host can read it (mode 0644), and there is a password in it ("+secret+")") {
			t.Errorf("%s: %+v", profile, got)
		}
	}
	environ, path = profilesFile(t, fmt.Sprintf("port = %s\n[prod]\npassword = x\n", closedPort(t)))
	must.Do(t, os.Chmod(path, 0o644))
	if got := (jobctl{environ: environ}).run(t, "poll"); !strings.Contains(got.err, "there is a password in it (prod.password)") {
		t.Errorf("no profile: %+v", got)
	}
}

// Which port is meant.
func TestPortsOfWorkersAndMasters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, args string
		environ    []string
		want       int
	}{
		"nothing":                               {want: workerPort},
		"a master":                              {args: "--master", want: masterPort},
		"both in the file, worker":              {file: "port = 1\nmaster_port = 2\n", want: 1},
		"both in the file, master":              {file: "port = 1\nmaster_port = 2\n", args: "--master", want: 2},
		"--port counts":                         {file: "port = 1\nmaster_port = 2\n", args: "--master --port 3", want: 3},
		"--master-port counts":                  {file: "port = 1\n", args: "--master --master-port 3", want: 3},
		"--master-port counts before the other": {args: "--master --port 4 --master-port 3", want: 3},
		"--master-port, of a worker":            {args: "--port 4 --master-port 3", want: 4},
		"the environment before the file":       {file: "port = 1\nmaster_port = 2\n", args: "--master", environ: []string{"JOBCTL_PORT=5"}, want: 5},
		"the environment has both":              {args: "--master", environ: []string{"JOBCTL_PORT=5", "JOBCTL_MASTER_PORT=6"}, want: 6},
		"a port alone, as ever":                 {file: "port = 1\n", args: "--master", want: 1},
		"a profile's worker":                    {file: "[p]\nport = 1\n", args: "@p", want: 1},
		"its master":                            {file: "[p]\nport = 1\n", args: "@p --master", want: masterPort},
		"its master_port":                       {file: "[p]\nport = 1\nmaster_port = 2\n", args: "@p --master", want: 2},
		"a profile of a master":                 {file: "[p]\nmaster = 1\nport = 1\n", args: "@p", want: 1},
		"its worker":                            {file: "[p]\nmaster = 1\nport = 1\nmaster_port = 2\n", args: "@p --master=false", want: 1},
		"nothing from above the sections":       {file: "port = 9\nmaster_port = 8\nmaster = 1\n[p]\n", args: "@p", want: workerPort},
	} {
		environ, path := profilesFile(t, test.file)
		set := newSet(environ, nil, nil)
		var c config
		c.register(set)
		args := strings.Fields(test.args)
		if len(args) > 0 && args[0] == "@p" {
			set.Choose("p")
			args = args[1:]
		}
		must.Do(t, set.Parse(args, test.environ, t.Output()))
		if c.validate(set); c.port != test.want || set.Err() != nil || set.Path() != path {
			t.Errorf("%s: port %d, want %d; %v", name, c.port, test.want, set.Err())
		}
	}
}
