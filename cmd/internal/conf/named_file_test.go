package conf_test

import (
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.conf")
	folder := t.TempDir()
	for name, test := range map[string]struct {
		standard string
		args     []string
		environ  []string
		want     string
	}{
		"no default file is no error":      {standard: absent},
		"no default file at all":           {},
		"an absent file by flag":           {args: []string{"--config", absent}, want: "config " + absent + ": no such file"},
		"an absent file by the variable":   {environ: []string{"TESTD_CONFIG=" + absent}, want: "config " + absent + ": no such file"},
		"an absent file by flag, default":  {standard: absent, args: []string{"--config", absent}, want: "config " + absent + ": no such file"},
		"a folder":                         {args: []string{"--config", folder}, want: "config " + folder + ": it is no regular file; allowed is one"},
		"a key in the place of a flag":     {args: []string{"--mysql_host=hunter2"}, want: "unknown flag --mysql_host; the nearest known one is --mysql-host"},
		"unknown flag":                     {args: []string{"--mysql-hots=x"}, want: "unknown flag --mysql-hots; the nearest known one is --mysql-host"},
		"flag without its value":           {args: []string{"--port"}, want: "flag needs an argument: -port"},
		"an argument that is no flag":      {args: []string{"start"}, want: `unexpected argument in place 1 of the command line; testd takes flags only, see --help`},
		"a family's flag without a member": {args: []string{"--launcher.env.=x"}, want: "unknown flag --launcher.env.; the nearest known one is --launcher.env.NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := newSet(test.standard)
			err := set.Parse(test.args, test.environ, t.Output())
			if err == nil {
				err = set.Err()
			}
			if test.want == "" {
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || exit.Code(err) != exit.Usage {
				t.Errorf("error %v with exit code %d, want %q with %d", err, exit.Code(err), test.want, exit.Usage)
			}
		})
	}
}

func TestRequireTellsThatTheFileIsAbsent(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.conf")
	set, _ := newSet(absent)
	must.Do(t, set.Parse(nil, nil, t.Output()))
	set.Require("", "port")
	want := "port: required; give it in " + absent + " (no such file now), as --port or as TESTD_PORT"
	if err := set.Err(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// Where the file that was named is missing, nothing is said of the keys that it would have had.
func TestAnAbsentNamedFileIsAllThatIsTold(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.conf")
	set, _ := newSet("")
	must.Do(t, set.Parse([]string{"--config", absent}, nil, t.Output()))
	set.Require("", "port")
	set.Missing("no targets")
	want := "config " + absent + ": no such file"
	if err := set.Err(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
