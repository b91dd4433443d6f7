package conf_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

// settings is a configuration with one key of each sort.
type settings struct {
	Host     string
	Port     int
	Password string
	Local    bool
	Wait     time.Duration
	Size     int64
	Mode     string
	Env      map[string]string
	Targets  map[string]int
}

func newSet(file string) (*conf.Set, *settings) {
	set := conf.New(conf.Program{Name: "testd", Summary: "testd is tested.", Version: "1.2.3", Prefix: "TESTD_", File: file})
	c := &settings{Env: map[string]string{}, Targets: map[string]int{}}
	set.Add("mysql_host", "localhost", "where", conf.NonEmpty(&c.Host)).Alias("mysql_hostname")
	set.Add("port", "", "which", conf.Int(&c.Port, 1, 65535))
	set.Add("password", "", "secret", conf.Text(&c.Password)).Secret()
	set.Add("always_allow", "false", "whether", conf.Bool(&c.Local)).Switch()
	set.Add("wait", "10", "how long", conf.Duration(&c.Wait, 0))
	set.Add("size", "1KiB", "how much", conf.Size(&c.Size, 1, 1<<20))
	set.Add("mode", "fail", "how", conf.OneOf(&c.Mode, "fail", "requeue"))
	set.AddNamed("launcher.env.NAME", "", "a variable", func(names []string) conf.Decode { return intoMap(c.Env, names[0]) })
	set.AddNamed("targets.NAME", "", "a target", func(names []string) conf.Decode {
		return func(text string) error {
			var n int
			err := conf.Int(&n, 1, 99)(text)
			c.Targets[names[0]] = n
			return err
		}
	})
	return set, c
}

func intoMap(all map[string]string, name string) conf.Decode {
	return func(text string) error {
		all[name] = text
		return nil
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "testd.conf")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = "mysql_host = from-file\nport = 1\nlauncher.env.A = file\nlauncher.env.B = file\nlauncher.env.c = file\n[targets]\na/1 = 1\nb = 1\nc:x = 1\n"
	defaults := settings{Host: "localhost", Wait: 10 * time.Second, Size: 1024, Mode: "fail", Env: map[string]string{}, Targets: map[string]int{}}
	for name, test := range map[string]struct {
		file    string
		environ []string
		args    []string
		change  func(*settings)
	}{
		"default": {change: func(*settings) {}},
		"file before default": {
			file:   "mysql_host = from-file\n",
			change: func(c *settings) { c.Host = "from-file" },
		},
		"environment before file": {
			file: "mysql_host = from-file\n", environ: []string{"TESTD_MYSQL_HOST=from-env"},
			change: func(c *settings) { c.Host = "from-env" },
		},
		"flag before environment": {
			file: "mysql_host = from-file\n", environ: []string{"TESTD_MYSQL_HOST=from-env"}, args: []string{"--mysql-host", "from-flag"},
			change: func(c *settings) { c.Host = "from-flag" },
		},
		"an empty variable is none": {
			file: "mysql_host = from-file\n", environ: []string{"TESTD_MYSQL_HOST="},
			change: func(c *settings) { c.Host = "from-file" },
		},
		"other variables are nobody's business": {
			environ: []string{"TESTD_NOPE=1", "OTHER_PORT=2", "TESTD_"},
			change:  func(*settings) {},
		},
		"alias in the file": {
			file:   "mysql_hostname = from-file\n",
			change: func(c *settings) { c.Host = "from-file" },
		},
		"alias as a flag goes before the key in the file": {
			file: "mysql_host = from-file\n", args: []string{"--mysql-hostname=from-flag"},
			change: func(c *settings) { c.Host = "from-flag" },
		},
		"the same twice in the file": {
			file:   "port = 2\nport = \"2\"\n",
			change: func(c *settings) { c.Port = 2 },
		},
		"a switch needs no value": {
			args:   []string{"--always-allow", "--port=7"},
			change: func(c *settings) { c.Local, c.Port = true, 7 },
		},
		"a switch can be turned off": {
			file: "always_allow = 1\n", args: []string{"--always-allow=0"},
			change: func(*settings) {},
		},
		"members one by one, their case kept": {
			file:    file,
			environ: []string{"TESTD_LAUNCHER_ENV_B=env", "TESTD_LAUNCHER_ENV_c=env", "TESTD_TARGETS_b=2"},
			args:    []string{"--launcher.env.c=flag", "--targets.c:x", "3", "--targets.d=4"},
			change: func(c *settings) {
				c.Host, c.Port = "from-file", 1
				c.Env = map[string]string{"A": "file", "B": "env", "c": "flag"}
				c.Targets = map[string]int{"a/1": 1, "b": 2, "c:x": 3, "d": 4}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, got := newSet(writeFile(t, test.file))
			must.Do(t, errors.Join(set.Parse(test.args, test.environ, t.Output()), set.Err()))
			if warnings := set.Warnings(); len(warnings) > 0 {
				t.Errorf("warnings %q, want none", warnings)
			}
			want := defaults
			want.Env, want.Targets = map[string]string{}, map[string]int{}
			test.change(&want)
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "port = 70800\nwait = soon\n[targets]\na/b = 0\n[oops\n")
	set, _ := newSet(path)
	must.Do(t, set.Parse([]string{"--mode", "ask"}, []string{"TESTD_SIZE=2GiB"}, t.Output()))
	set.Require(" for a reason", "password")
	err := set.Err()
	want := []string{
		path + ":5: not a section; allowed: [name] alone in a line",
		path + `:1: port: "70800" is not allowed; allowed: a whole number from 1 to 65535`,
		path + `:2: wait: "soon" is not allowed; allowed: seconds, or a duration such as 500ms, 2m, 1h30m or 30d, of at least 0s`,
		`environment TESTD_SIZE: size: "2GiB" is not allowed; allowed: bytes, or a size such as 16MiB, from 1 to 1048576`,
		`flag --mode: mode: "ask" is not allowed; allowed: one of: fail, requeue`,
		path + `:4: targets.a/b: "0" is not allowed; allowed: a whole number from 1 to 99`,
		"password: required for a reason; give it in " + path + ", as --password or as TESTD_PASSWORD",
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if code := exit.Code(err); code != exit.Usage {
		t.Errorf("exit code %d, want %d", code, exit.Usage)
	}
}

// A name in quotes is the name inside, with its spaces.
func TestNamesInQuotes(t *testing.T) {
	t.Parallel()
	set, got := newSet(writeFile(t, "[targets]\n\"q\" = 1\n\" q \" = 2\n' r' = 3\ns\t=4\n"))
	args := []string{"--targets. r=5", "--targets.s=6"}
	must.Do(t, errors.Join(set.Parse(args, nil, t.Output()), set.Err()))
	if diff := cmp.Diff(map[string]int{"q": 1, " q ": 2, " r": 5, "s": 6}, got.Targets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnknownKeysAreWarnings(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "mysql_hots = a\nconfig = b\nLAUNCHER.env.X = c\npasword = very-secret\n[target]\na = 1\n")
	set, _ := newSet(path)
	must.Do(t, errors.Join(set.Parse(nil, nil, t.Output()), set.Err()))
	want := []string{
		path + ":1: unknown key mysql_hots is not used; the nearest known one is mysql_host",
		path + ":2: unknown key config is not used",
		path + ":3: unknown key LAUNCHER.env.X is not used; the nearest known one is launcher.env.NAME",
		path + ":4: unknown key pasword is not used; the nearest known one is password",
		path + ":5: unknown section [target] is not used, nor are the lines below it; the nearest known one is [targets]",
	}
	if diff := cmp.Diff(want, set.Warnings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	unreadable := t.TempDir() // a folder: reading it fails
	for name, args := range map[string][]string{
		"help":                       {"--help"},
		"short help":                 {"-h"},
		"help beside wrong values":   {"--port=x", "--help"},
		"help beside an unread file": {"--help", "--config", unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := newSet("/etc/testd.conf")
			var out strings.Builder
			if err := set.Parse(args, nil, &out); !errors.Is(err, flag.ErrHelp) || exit.Code(err) != exit.Success {
				t.Fatalf("error %v with exit code %d, want %v with 0", err, exit.Code(err), flag.ErrHelp)
			}
			for _, want := range []string{"--mysql-host", "localhost", "where", "--launcher.env.NAME", "[targets] NAME", "/etc/testd.conf", "TESTD_HOST", "with _ for each -"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in the help:\n%s", want, &out)
				}
			}
		})
	}
	t.Run("version", func(t *testing.T) {
		t.Parallel()
		set, _ := newSet("")
		var out strings.Builder
		if err := set.Parse([]string{"--version"}, nil, &out); err == nil || exit.Code(err) != exit.Success {
			t.Fatalf("error %v with exit code %d, want one with 0", err, exit.Code(err))
		}
		if out.String() != "1.2.3\n" {
			t.Errorf("printed %q, want the version alone", out.String())
		}
	})
}

// The chosen section counts before the keys above all sections, of which the own keys don't count at
// all; other sections are nobody's business.
func TestProfilesOfAFile(t *testing.T) {
	t.Parallel()
	const content = "host = above\nport = 1\nwait = 5\npassword = \"p w\"\n[a]\nhost = of-a\nwait = 7\nhots = x\n[b]\nport = 2\nnonsense\nport = zero\n[ c d ]\nport = x\n[a]\nport = 3\n"
	path := filepath.Join(t.TempDir(), "f.conf")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	type read struct {
		Host, Password string
		Port           int
		Wait           time.Duration
	}
	for profile, test := range map[string]struct {
		want     read
		warnings []string
		err      string
	}{
		"":    {want: read{"above", "p w", 1, 5 * time.Second}},
		"a":   {want: read{Host: "of-a", Port: 3, Wait: 7 * time.Second}, warnings: []string{path + ":8: unknown key hots is not used; the nearest known one is host"}},
		"c d": {want: read{Host: "none", Wait: 5 * time.Second}, err: path + `:14: port: "x" is not allowed; allowed: a whole number from 1 to 9`},
		"d":   {want: read{Host: "none", Wait: 5 * time.Second}, err: "there is no profile @d in " + path + "; there are: @a, @b, @c d"},
		"bb":  {want: read{Host: "none", Wait: 5 * time.Second}, err: "there is no profile @bb in " + path + "; the nearest known one is @b; there are: @a, @b, @c d"},
	} {
		var got read
		set := conf.New(conf.Program{Name: "testctl", Prefix: "TESTCTL_", File: path})
		set.AddProfiles("host", "port", "password")
		set.Add("host", "none", "", conf.Text(&got.Host))
		set.Add("port", "", "", conf.Int(&got.Port, 1, 9))
		set.Add("wait", "", "", conf.Duration(&got.Wait, 0))
		set.Add("password", "", "", conf.Text(&got.Password)).Secret()
		set.Choose(profile)
		must.Do(t, set.Parse(nil, nil, t.Output()))
		err := ""
		if set.Err() != nil {
			err = set.Err().Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != test.err || !slices.Equal(set.Warnings(), test.warnings) {
			t.Errorf("profile %q: error %q, want %q; warnings %q, want %q; (-want +got):\n%s", profile, err, test.err, set.Warnings(), test.warnings, diff)
		}
		if set.Profile() != profile {
			t.Errorf("chosen: %q, want %q", set.Profile(), profile)
		}
	}
}

// keptSet is a program with a password that a file may hold, and what it was given.
func keptSet(t *testing.T, file string) (set *conf.Set, password *string) {
	t.Helper()
	password = new(string)
	set = conf.New(conf.Program{Name: "testd", Version: "1.2.3", Prefix: "TESTD_", File: writeFile(t, file)})
	set.Add("password", "", "secret", conf.Text(password)).Secret().Kept()
	return set, password
}

// keep writes a file with a mode.
func keep(t *testing.T, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	must.Do(t, os.Chmod(path, mode))
	return path
}

// A password is the line that a file holds, wherever that was named; what was given closer to the
// command line goes before.
func TestPasswordInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := keep(t, dir, "password", "hunter2\n", 0o400)
	group := keep(t, dir, "group", " hun ter2 \r\n", 0o640)
	marked := keep(t, dir, "marked", "\ufeffhunter2\n", 0o600)
	must.Do(t, os.Symlink(path, filepath.Join(dir, "link")))
	in := []string{"CREDENTIALS_DIRECTORY=" + dir}
	for name, test := range map[string]struct {
		file          string
		args, environ []string
		want          string
	}{
		"a path":                     {file: "password_file = " + path, want: "hunter2"},
		"a link":                     {file: "password_file = " + dir + "/link", want: "hunter2"},
		"its group may read it":      {file: "password_file = " + group, want: " hun ter2 "},
		"a byte order mark":          {file: "password_file = " + marked, want: "hunter2"},
		"a credential":               {file: "password_file = password", environ: in, want: "hunter2"},
		"as a flag":                  {args: []string{"--password-file=" + path}, want: "hunter2"},
		"as a variable":              {environ: []string{"TESTD_PASSWORD_FILE=" + path}, want: "hunter2"},
		"a flag before a file's key": {file: "password_file = /nowhere", args: []string{"--password=flag"}, want: "flag"},
		"a flag before a variable":   {args: []string{"--password-file=" + path}, environ: []string{"TESTD_PASSWORD=other"}, want: "hunter2"},
		"a variable before the file": {file: "password = other", environ: []string{"TESTD_PASSWORD_FILE=" + path}, want: "hunter2"},
		"the password in a variable": {file: "password_file = /nowhere", environ: []string{"TESTD_PASSWORD=variable"}, want: "variable"},
		"neither of the two":         {},
		"the password itself":        {file: "password = other", want: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, password := keptSet(t, test.file)
			if err := set.Parse(test.args, test.environ, t.Output()); err != nil || set.Err() != nil {
				t.Fatal(err, set.Err())
			}
			if *password != test.want || set.Given("password") != (test.want != "") {
				t.Errorf("the password is %q, want %q", *password, test.want)
			}
		})
	}
}

// Everybody may read a configuration that says only where the password is, and see a flag that does.
func TestAPasswordFileIsNoPassword(t *testing.T) {
	t.Parallel()
	path := keep(t, t.TempDir(), "password", "hunter2\n", 0o600)
	for name, test := range map[string]struct {
		file string
		args []string
		want int
	}{
		"the file":             {"password_file = " + path, nil, 0},
		"the password":         {"password = hunter2", nil, 1},
		"a flag":               {"", []string{"--password-file=" + path}, 0},
		"a flag, the password": {"", []string{"--password=hunter2"}, 1},
	} {
		set, _ := keptSet(t, test.file)
		must.Do(t, os.Chmod(set.Path(), 0o644))
		if err := set.Parse(test.args, nil, t.Output()); err != nil || set.Err() != nil {
			t.Fatal(err, set.Err())
		}
		if warned := set.Warnings(); len(warned) != test.want {
			t.Errorf("%s: warnings %q, want %d", name, warned, test.want)
		}
	}
}

// What a file can't hold, and what is no file, is told with the key's place and the remedy, and
// nothing of what is in it.
func TestWrongPasswordFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := keep(t, dir, "password", "hunter2\n", 0o600)
	pipe := filepath.Join(dir, "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	in := []string{"CREDENTIALS_DIRECTORY=" + dir}
	for name, test := range map[string]struct {
		file          string
		args, environ []string
		want          string
	}{
		"missing":                      {file: "password_file = " + dir + "/none", want: ":1: password_file: " + dir + "/none: no such file"},
		"a missing credential":         {file: "password_file = none", environ: in, want: ": no such file; the unit's LoadCredential puts it there, under this name"},
		"empty":                        {file: "password_file = " + keep(t, dir, "empty", "\n", 0o600), want: "/empty: the password must be one line of 1 to 4096 bytes"},
		"everybody reads it":           {file: "password_file = " + keep(t, dir, "open", "hunter2", 0o644), want: "/open: everybody on this host can read or change it (mode 0644); chmod o-rwx " + dir + "/open"},
		"everybody writes it":          {file: "password_file = " + keep(t, dir, "written", "hunter2", 0o602), want: "everybody on this host can read or change it (mode 0602)"},
		"two lines":                    {file: "password_file = " + keep(t, dir, "two", "hunter2\nhunter3\n", 0o600), want: "/two: the password must be one line of 1 to 4096 bytes"},
		"another encoding":             {file: "password_file = " + keep(t, dir, "latin", "hunt\xe9r2\n", 0o600), want: "/latin: it is not in UTF-8; allowed:"},
		"a variable's encoding":        {environ: []string{"TESTD_PASSWORD=hunt\xe9r2"}, want: "it is not in UTF-8; allowed:"},
		"a NUL":                        {file: "password_file = " + keep(t, dir, "nul", "hunter2\x00", 0o600), want: "/nul: the password must be one line of 1 to 4096 bytes"},
		"too long":                     {file: "password_file = " + keep(t, dir, "long", strings.Repeat("hunter2", 1000), 0o600), want: "/long: the password must be one line of 1 to 4096 bytes"},
		"a folder":                     {file: "password_file = " + dir, want: dir + ": it is not a regular file"},
		"a pipe":                       {file: "password_file = " + pipe, want: "/pipe: it is not a regular file"},
		"no path":                      {file: "password_file =", want: `password_file: "" is not allowed`},
		"a name without a folder":      {file: "password_file = password", want: `"password" is not allowed: a credential's name needs $CREDENTIALS_DIRECTORY, which systemd sets where the unit has LoadCredential; beside a unit that runs: CREDENTIALS_DIRECTORY=/run/credentials/testd.service; `},
		"beyond the folder":            {file: "password_file = ../password", environ: in, want: `"../password" is not allowed; allowed: a path that begins with /, or the name of a credential`},
		"both keys in the file":        {file: "password = hunter2\npassword_file = " + path, want: ":2: password_file: password is given, too; allowed: one of the two"},
		"both keys as flags":           {args: []string{"--password=hunter2", "--password-file=" + path}, want: "flag --password-file: password_file: password is given, too"},
		"both keys as variables":       {environ: []string{"TESTD_PASSWORD=hunter2", "TESTD_PASSWORD_FILE=" + path}, want: "environment TESTD_PASSWORD_FILE: password_file: password is given, too"},
		"through what is not a folder": {file: "password_file = " + path + "/x", want: path + "/x: not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := keptSet(t, test.file)
			must.Do(t, set.Parse(test.args, test.environ, t.Output()))
			set.Require("", "password")
			said := fmt.Sprint(set.Err())
			if !strings.Contains(said, test.want) || strings.Contains(said, "hunter") || strings.Contains(said, "required") && test.file != "password_file =" {
				t.Errorf("told is %s; want %q", said, test.want)
			}
		})
	}
}
