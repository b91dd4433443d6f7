package application

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// What an operator's file looks like after some years: quotes of both kinds, comments of
// both kinds and behind values, odd spaces, target names with slashes and colons.
const oldFile = `; the reporting hosts share this file
# see the wiki before you change it
host = 127.0.0.1   ; loopback only
port=%[1]s
password = "p;a#ss \"word\""   # quotes and marks belong to it
always_allow_localhost = 0

name = 'old # node'
launcher = %[2]s --job {id} "{id}"
launcher.cwd = "%[3]s"
launcher.env.APP_ENV = "production; really"
launcher.env.EMPTY =
max_output_buffer = 4194304 ; bytes
log_level_console = "info"

mysql_host = "%[4]s"
mysql_port = %[5]s
mysql_user = %[6]s
mysql_password = %[7]s
mysql_database = %[8]s ; the application's own
mysql_fetch_limit = 10
journal_dir = %[9]s

[targets]
; name = concurrency
default = 2  # two
reports/daily = 1
mail:out = "3"
`

func TestOldConfigurationFile(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, `echo "$# $1 $2 $3|$APP_ENV|${EMPTY-unset}|${JOBD_PASSWORD-none}|$PWD"`)
	cwd, port, s := t.TempDir(), harness.FreePort(t), db.Settings()
	file := filepath.Join(t.TempDir(), "jobd.conf")
	text := fmt.Sprintf(oldFile, port, launcher, cwd, s["mysql_host"], s["mysql_port"],
		s["mysql_user"], strconv.Quote(db.Account.Password), s["mysql_database"], filepath.Join(t.TempDir(), "journal"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, target := range []string{"", "default", "reports/daily", "mail:out"} {
		if id > 0 {
			db.Insert(t, int64(id), target, "waiting")
		}
	}
	worker := harness.Launch(t, "jobd", file, "127.0.0.1:"+port).Ready(t)

	for id := int64(1); id <= 3; id++ {
		row := db.AwaitDone(t, id)
		want := fmt.Sprintf("3 --job %d \"%d\"|production; really||none|%s\n", id, id, cwd)
		if got := harness.Text(row.Stdout); got != want {
			t.Errorf("job %d wrote %q, want %q", id, got, want)
		}
	}
	client := harness.Dial(t, worker.Addr)
	client.Send(t, `[0,{"no":1,"type":"status","password":"p;a#ss \"word\""}]`)
	response, _ := client.Answer(t)
	var status struct {
		Targets map[string]struct{ Concurrency int }
	}
	response.Decode(t, &status)
	if got, want := fmt.Sprint(status.Targets), "map[default:{2} mail:out:{3} reports/daily:{1}]"; got != want {
		t.Errorf("targets: got %s, want %s", got, want)
	}
}

// The original set running before it started the launcher, so launchers check it.
func TestLauncherFindsItsRowRunning(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, fmt.Sprintf(
		`status=$(%s -N -e "SELECT CONCAT(status, ' ', time_started > 0, ' ', result IS NULL) FROM %s.jobs WHERE id = $1") || exit 3
echo "$status"
[ "${status%%%% *}" = running ]`, db.Client(), db.Name))
	const jobs = 20
	for id := range int64(jobs) {
		db.Insert(t, id+1, "a", "waiting")
	}
	db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 4}).StartWorker(t)
	for id := range int64(jobs) {
		row := db.AwaitDone(t, id+1)
		if got := harness.Text(row.Stdout); got != "running 1 1\n" || harness.Text(row.Result) != "ok" {
			t.Errorf("job %d found its row as %q: %s", id+1, got, row)
		}
	}
}
