package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
)

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

func TestLauncherWithoutIDIsWarnedOf(t *testing.T) {
	t.Parallel()
	const (
		unknowing = "flag --launcher: launcher: there is no {id} in it, so the command will not know which job it is for"
		forgotten = "; a script that is told of each of its jobs needs launcher_mode = fork or pool beside it, which is not set"
	)
	for want, args := range map[string][]string{
		unknowing + forgotten: {"--launcher=php /srv/fork.php"},
		unknowing:             {"--launcher=run", "--launcher-mode=process"},
		"":                    {"--launcher=php /srv/fork.php", "--launcher-mode=fork"},
	} {
		if got := strings.Join(mustParse(t, with(args...), nil).Warnings, "\n"); got != want {
			t.Errorf("%q: warnings %q, want %q", args, got, want)
		}
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
		"launcher":     {with("--launcher-split=shell", "--launcher='' --login hunter2 {id}"), "launcher: its value is not allowed; allowed is a command"},
		"mysql_table":  {with(append(mysql, "--mysql-table=a.b.hunter2")...), "mysql_table: its value is not allowed; allowed is table or database.table"},
		"master_host":  {with("--master-host=a:hunter2"), "master_host: its value is not allowed; allowed are names"},
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
