package conf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/store/storetest/must"
)

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
		"missing":                   {file: "password_file = " + dir + "/none", want: ":1: password_file: " + dir + "/none: no such file"},
		"a missing credential":      {file: "password_file = none", environ: in, want: ": no such file; the unit's LoadCredential puts it there, under this name"},
		"empty":                     {file: "password_file = " + keep(t, dir, "empty", "\n", 0o600), want: "/empty: it is empty, or longer than a line of 4096 bytes; allowed is a password in one line"},
		"everybody reads it":        {file: "password_file = " + keep(t, dir, "open", "hunter2", 0o644), want: "/open: everybody on this host can read or change it (mode 0644); chmod o-rwx " + dir + "/open"},
		"everybody writes it":       {file: "password_file = " + keep(t, dir, "written", "hunter2", 0o602), want: "everybody on this host can read or change it (mode 0602)"},
		"two lines":                 {file: "password_file = " + keep(t, dir, "two", "hunter2\nhunter3\n", 0o600), want: "/two: it is empty, or longer than a line of 4096 bytes; allowed is a password in one line"},
		"another encoding":          {file: "password_file = " + keep(t, dir, "latin", "hunt\xe9r2\n", 0o600), want: "/latin: it is not in UTF-8; allowed is"},
		"a variable's encoding":     {environ: []string{"TESTD_PASSWORD=hunt\xe9r2"}, want: "it is not in UTF-8; allowed is"},
		"a NUL":                     {file: "password_file = " + keep(t, dir, "nul", "hunter2\x00", 0o600), want: "/nul: it is empty, or longer than a line of 4096 bytes; allowed is a password in one line"},
		"too long":                  {file: "password_file = " + keep(t, dir, "long", strings.Repeat("hunter2", 1000), 0o600), want: "/long: it is empty, or longer than a line of 4096 bytes; allowed is a password in one line"},
		"a folder":                  {file: "password_file = " + dir, want: dir + ": it is no regular file"},
		"a pipe":                    {file: "password_file = " + pipe, want: "/pipe: it is no regular file"},
		"no path":                   {file: "password_file =", want: `password_file: "" is not allowed`},
		"a name without a folder":   {file: "password_file = password", want: `"password" is not allowed: a credential's name needs $CREDENTIALS_DIRECTORY, which systemd sets where the unit has LoadCredential; beside a unit that runs: CREDENTIALS_DIRECTORY=/run/credentials/testd.service; `},
		"beyond the folder":         {file: "password_file = ../password", environ: in, want: `"../password" is not allowed; allowed is a path that begins with /, or the name of a credential`},
		"both keys in the file":     {file: "password = hunter2\npassword_file = " + path, want: ":2: password_file: password is given, too; allowed is one of the two"},
		"both keys as flags":        {args: []string{"--password=hunter2", "--password-file=" + path}, want: "flag --password-file: password_file: password is given, too"},
		"both keys as variables":    {environ: []string{"TESTD_PASSWORD=hunter2", "TESTD_PASSWORD_FILE=" + path}, want: "environment TESTD_PASSWORD_FILE: password_file: password is given, too"},
		"through what is no folder": {file: "password_file = " + path + "/x", want: path + "/x: not a directory"},
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

// Another password in the same file is another value of the password's key.
func TestAPasswordFileThatChanges(t *testing.T) {
	t.Parallel()
	path := keep(t, t.TempDir(), "password", "one\n", 0o600)
	read := func() *conf.Set {
		set, _ := keptSet(t, "password_file = "+path)
		if err := set.Parse(nil, nil, t.Output()); err != nil || set.Err() != nil {
			t.Fatal(err, set.Err())
		}
		return set
	}
	before := read()
	if changed := read().Changed(before); len(changed) > 0 {
		t.Errorf("changed: %q", changed)
	}
	keep(t, filepath.Dir(path), "password", "another\n", 0o600)
	if changed := read().Changed(before); len(changed) != 1 || changed[0] != "password" {
		t.Errorf("changed: %q", changed)
	}
}
