package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// An operator's own file is looked at like a daemon's: who else reads it, and what is in it that was hardly meant.
func TestOwnFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".jobctl.conf")
	text := "password = hunter2#x\nmaster = yes\nmysql_host = db\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	must.Do(t, os.Chmod(path, 0o644))
	set := newSet([]string{"HOME=" + filepath.Dir(path)}, nil, nil)
	var c config
	c.register(set)
	must.Do(t, set.Parse(nil, []string{"JOBCTL_TIMEUOT=1"}, t.Output()))
	want := []string{
		"environment JOBCTL_TIMEUOT: unknown, and not used; the nearest known one is JOBCTL_TIMEOUT",
		path + ":1: password: it is cut at its #, which begins a comment; allowed: quotes around the whole value, or blanks before and behind the # of a comment",
		path + ":3: unknown key mysql_host is not used",
		path + ":2: master: its value counts as false; allowed: 1 and true, 0 and false",
		path + ": everybody on this host can read it (mode 0644), and there is a password in it (password); chmod o-rwx " + path,
	}
	if diff := cmp.Diff(want, set.Warnings()); diff != "" || c.master || set.Err() != nil {
		t.Errorf("%+v, %v (-want +got):\n%s", c, set.Err(), diff)
	}
}

// Every configuration that was ever shipped is taken as it stands, and nothing is said of it.
func TestFormerConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/compat/configuration/jobctl-*.conf")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %q: %v", files, err)
	}
	d := startDaemon(t, "", map[string]any{"poll": "ok"})
	for _, file := range files {
		jobctl{}.expect(t, d, output{out: "ok\n"}, "poll", "--config", file)
	}
}

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
		"@prod @fleet poll":     {code: 2, err: "jobctl: profiles @prod and @fleet: only one is allowed; put other words that begin with @ after --\n"},
		"@ poll":                {code: 2, err: "jobctl: a profile has a name, as in @prod; write a word that is only @ after --\n"},
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
		"of the environment":         {environ: []string{"JOBCTL_PASSWORD=right"}, args: "@prod poll", want: output{code: 1, err: "warning: environment JOBCTL_PASSWORD: not used: the profile @prod alone sets the address\n" + needed}},
		"the environment's host":     {environ: []string{"JOBCTL_HOST=10.255.255.1", "JOBCTL_OUTPUT=json"}, args: "@other poll", want: output{out: "\"ok\"\n", err: "warning: environment JOBCTL_HOST: not used: the profile @other alone sets the address\n"}},
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

// A new token is known by the line that is printed beside it, and what it may do is told to whoever has it. No
// daemon is asked.
func TestTokenIsMadeAndChecked(t *testing.T) {
	t.Parallel()
	nobody := []string{"JOBCTL_PORT=1"}                                                                 // no daemon is there
	expires := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).AddDate(0, 0, 36500).Format(time.RFC3339) // jobctl's today, and so long
	made := jobctl{environ: nobody}.run(t, "token", "new", "shop", "--scope", "run", "--targets", "mail,reports/*", "--expires", "36500d")
	lines := strings.Split(made.out, "\n")
	if made.code != 0 || len(lines) != 8 || !strings.Contains(lines[0], "for the client") || !strings.Contains(lines[4], "principals_file") {
		t.Fatalf("%+v", made)
	}
	token, line := lines[2], lines[6]
	words := strings.Fields(line)
	if !strings.HasPrefix(token, "jobd_shop_") || len(words) != 5 || words[4] != "expires="+expires || strings.Count(made.out, token) != 1 {
		t.Errorf("%+v", made)
	}
	if dated := (jobctl{}).run(t, "token", "new", "shop", "--scope", "run", "--targets", "mail", "--expires", "2027-01-01"); !strings.Contains(dated.out, "  expires=2027-01-01T00:00:00Z") {
		t.Errorf("until a day: %+v", dated)
	}
	if again := (jobctl{}).run(t, "token", "new", "shop", "--scope", "run", "--targets", "mail"); strings.Contains(again.out, token) || strings.Contains(again.out, "expires") {
		t.Errorf("%+v", again)
	}
	form := jobctl{stdin: token + "\n", environ: nobody}.run(t, "token", "check")
	if form.code != 0 || !strings.HasSuffix(form.out, ":\n\n"+words[3]+"\n") || strings.Contains(form.out, token) {
		t.Errorf("without a file: %+v", form)
	}
	file := principalsFile(t, "# ours\n"+line+"\n")
	check := []string{"token", "check", "--file", file}
	want := "name     shop\nscope    run\ntargets  mail,reports/*\nexpires  " + expires + "\n"
	if got := (jobctl{stdin: " " + token + "\r\n", environ: nobody}).run(t, check...); got != (output{out: want}) {
		t.Errorf("got %+v, want %s", got, want)
	}
	got := jobctl{stdin: token}.run(t, append(check, "--output", "json")...)
	var told map[string]string
	if err := json.Unmarshal([]byte(got.out), &told); err != nil || got.code != 0 || told["name"] != "shop" || told["scope"] != "run" ||
		told["targets"] != "mail,reports/*" || told["expires"] != expires || told["credential"] != words[3] || told["token"] != "" {
		t.Errorf("%+v: %v", got, err)
	}
	// What is no token, or of no line, or of one that can't be used, fails, and nothing of it is told.
	other := jobctl{}.run(t, "token", "new", "shop", "--scope", "run", "--targets", "*", "--output", "json")
	if err := json.Unmarshal([]byte(other.out), &told); err != nil || !strings.HasPrefix(told["token"], "jobd_shop_") || !strings.HasPrefix(told["line"], "shop  run  *  token:sha256:") {
		t.Errorf("%+v: %v", other, err)
	}
	open := principalsFile(t, line+"\n")
	must.Do(t, os.Chmod(open, 0o644))
	for _, test := range []struct{ stdin, file, want string }{
		{"s3cret-word", file, "that is not a token of jobctl token new"},
		{token[:20], file, "that is not a token of jobctl token new"},
		{words[3], file, "that is not a token of jobctl token new"},
		{told["token"], file, "no line has this token's digest, or it has expired: token:sha256:"},
		{token, principalsFile(t, "shop run mail "+words[3]+" expires=2026-01-01\n"), "or it has expired"},
		{token, principalsFile(t, line+"\nshop run mail "+token+"\n"), "line 2: not a token's digest"},
		{token, open, "others may read or write it"},
		{token, file + ".old", "no such file"},
		{"", file, "read token from stdin: EOF"},
	} {
		got := jobctl{stdin: test.stdin}.run(t, "token", "check", "--file", test.file)
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, test.want) || test.stdin != "" && strings.Contains(got.err, test.stdin) && test.stdin != words[3] {
			t.Errorf("%s in %s: %+v, want %s", test.stdin, test.file, got, test.want)
		}
	}
}

// principalsFile is a file of principals.
func principalsFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "principals")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// What would make no line is refused, before there is a token.
func TestTokenRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"new":                                        "needs a name, --scope and --targets, as in: jobctl token new shop",
		"new a b --scope run --targets *":            "needs a name, --scope and --targets",
		"new a --scope run":                          "needs a name, --scope and --targets",
		"new a --targets *":                          "needs a name, --scope and --targets",
		"new ä --scope run --targets *":              `token new: "ä" is not a name; allowed: 1 to 64 of`,
		"new password --scope run --targets *":       "save the word password",
		"new a --scope all --targets *":              `--scope: "all" is not allowed; allowed: status, read, submit, run, admin, worker`,
		"new a --scope run --targets ma*":            `token new: --targets: "ma*" is not a list of targets; allowed:`,
		"new a --scope run --targets * --expires 1s": `--expires: "1s" is not allowed`,
		"check jobd_a_x":                             "token check: takes no arguments",
		"":                                           "a command is missing",
	} {
		got := jobctl{}.run(t, append([]string{"token"}, strings.Fields(args)...)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
}

// says is a daemon that answers poll and poke with the same words.
func says(words string) jobnet.ServerConfig {
	answer := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return words, nil }
	return jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{"poll": answer, "poke": answer}}
}

// onSocket serves on a socket until the test ends.
func onSocket(t *testing.T, path string, config jobnet.ServerConfig) {
	t.Helper()
	listener := must.Get(net.Listen("unix", path))(t)
	serveOn(t, listener, config)
}

// A socket is where jobctl goes if a flag, a variable or the file says so, and nothing closer names a
// host or port; the sockets of this host's daemons are where it goes if nothing says where to go.
func TestWhichSocket(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	own := filepath.Join(folder, "own.sock")
	onSocket(t, own, says("own"))
	onSocket(t, filepath.Join(folder, "jobd.sock"), says("worker"))
	onSocket(t, filepath.Join(folder, "jobd-master.sock"), says("master"))
	port := listen(t, says("tcp"))
	inFile, _ := profilesFile(t, "log_level = error\nsocket = "+own+"\n[sock]\nsocket = "+own+"\nhost = 192.0.2.1\npassword = x\n[tcp]\nport = "+port+"\n")
	byVariable := append([]string{"JOBCTL_PORT=" + port}, inFile...)
	elsewhere := append([]string{"JOBCTL_SOCKET=/no/socket"}, inFile...)
	for name, test := range map[string]struct {
		environ []string
		args    string
		want    output
	}{
		"nothing said":               {nil, "poll", output{out: "worker\n"}},
		"a master":                   {nil, "--master poke a", output{out: "master\n"}},
		"a port":                     {nil, "poll --port " + port, output{out: "tcp\n"}},
		"a master's port":            {nil, "--master --master-port " + port + " poke a", output{out: "tcp\n"}},
		"a master's, of a worker":    {nil, "poll --master-port 1", output{out: "worker\n"}},
		"a flag":                     {nil, "poll --socket " + own, output{out: "own\n"}},
		"the file":                   {inFile, "poll", output{out: "own\n"}},
		"a flag before the file":     {inFile, "poll --port " + port, output{out: "tcp\n"}},
		"a profile":                  {inFile, "@sock poll", output{out: "own\n"}},
		"a profile without one":      {inFile, "@tcp poll", output{out: "tcp\n"}},
		"a variable":                 {elsewhere, "poll", output{code: 3, err: "jobctl: no connection to /no/socket: no such file or directory\n"}},
		"a variable before the file": {byVariable, "poll", output{out: "tcp\n"}},
		"a flag before a variable":   {elsewhere, "poll --port " + port, output{out: "tcp\n"}},
		"both": {nil, "poll --socket " + own + " --port " + port, output{
			code: 2, err: "jobctl: flag --socket: socket: with --host or --port it is ambiguous; give one of them\n",
		}},
		"a relative one": {nil, "poll --socket own.sock", output{
			code: 2, err: `jobctl: flag --socket: socket: "own.sock" is not allowed; allowed: the absolute path of a unix socket, of at most 107 bytes` + "\n",
		}},
	} {
		if got := (jobctl{environ: test.environ, sockets: folder}).run(t, strings.Fields(test.args)...); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// The password of a profile goes to no socket that the command line names.
func TestAProfilesPasswordGoesToNoOtherSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	config := says("ok")
	config.Password = "the profile's password"
	onSocket(t, path, config)
	environ, _ := profilesFile(t, "[prod]\nhost = 192.0.2.1\npassword = the profile's password\n")
	got := jobctl{environ: environ}.run(t, "@prod", "poll", "--socket", path)
	if got.code == 0 || !strings.Contains(got.err, "the password of @prod is not sent") {
		t.Errorf("%+v", got)
	}
}

// A socket that is tried because nothing says where to go belongs to root, as systemd's do, or to who calls:
// jobs of jobd's account may make one in the same folder.
func TestASocketOfAnotherAccountIsNotTriedByItself(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("another account needs root")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "jobd.sock")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.Do(t, os.Chown(path, 54321, 54321))
	if got := (jobctl{sockets: folder}).run(t, "poll"); strings.Contains(got.err, path) {
		t.Errorf("it was tried: %+v", got)
	}
	must.Do(t, os.Chown(path, 0, 0))
	if got := (jobctl{sockets: folder}).run(t, "poll"); !strings.Contains(got.err, path) {
		t.Errorf("root's was not tried: %+v", got)
	}
}
