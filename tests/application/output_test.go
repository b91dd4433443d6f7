package application

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

const (
	limit     = 1 << 20 // max_output_buffer where the configuration says nothing
	textLimit = 1<<16 - 1
)

// mark is what ends an output that was cut.
func mark(size int) string { return fmt.Sprintf("\n[jobd: output cut, %d bytes in all]\n", size) }

func TestOutputOfEveryKind(t *testing.T) {
	t.Parallel()
	fourBytes := strings.ReplaceAll(dbserver.JobsTable, "CHARSET=utf8", "CHARSET=utf8mb4")
	short := strings.ReplaceAll(dbserver.JobsTable, "mediumtext DEFAULT NULL", "text DEFAULT NULL")
	notNull := strings.ReplaceAll(dbserver.JobsTable, "mediumtext DEFAULT NULL", "varchar(1000) NOT NULL DEFAULT ''")
	cases := []struct {
		name   string
		table  string
		script string
		row    string // what the row's stdout must hold
		kept   string // what the journal must hold of it
		size   int    // how much the job wrote; 0: what was kept
		code   int
	}{
		{name: "nothing", table: dbserver.JobsTable, script: `exit 0`},
		{name: "NUL bytes", table: dbserver.JobsTable, script: `printf 'a\000b\000'`, row: "a\x00b\x00", kept: "a\x00b\x00"},
		{name: "invalid UTF-8", table: dbserver.JobsTable, script: `printf 'a\377\303(b'; exit 3`, row: "a\uFFFD(b", kept: "a\xff\xc3(b", code: 3},
		{name: "emoji in a three-byte column", table: dbserver.JobsTable, script: `printf 'so \360\237\230\200 é€'`, row: "so \uFFFD é€", kept: "so 😀 é€"},
		{name: "emoji in a four-byte column", table: fourBytes, script: `printf 'so \360\237\230\200 é€'`, row: "so 😀 é€", kept: "so 😀 é€"},
		{
			name: "64 MiB", table: dbserver.JobsTable, script: `head -c 67108864 /dev/zero | tr '\000' x; exit 9`,
			row: strings.Repeat("x", limit) + mark(64<<20), kept: strings.Repeat("x", limit), size: 64 << 20, code: 9,
		},
		{
			name: "one byte over the limit", table: dbserver.JobsTable, script: `head -c 1048577 /dev/zero | tr '\000' x`,
			row: strings.Repeat("x", limit) + mark(limit+1), kept: strings.Repeat("x", limit), size: limit + 1,
		},
		{
			name: "exactly the limit", table: dbserver.JobsTable, script: `head -c 1048576 /dev/zero | tr '\000' x`,
			row: strings.Repeat("x", limit), kept: strings.Repeat("x", limit),
		},
		{
			name: "text column", table: short, script: `head -c 200000 /dev/zero | tr '\000' x`,
			row: strings.Repeat("x", textLimit-len(mark(200000))) + mark(200000), kept: strings.Repeat("x", 200000),
		},
		{
			name: "NOT NULL column of 1,000 characters", table: notNull, script: `head -c 3000 /dev/zero | tr '\000' x`,
			row: strings.Repeat("x", 1000-len(mark(3000))) + mark(3000), kept: strings.Repeat("x", 3000),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t, c.table)
			db.Insert(t, 1, "a", "manual")
			settings := db.Worker(t, "worker", harness.Script(t, c.script)+" {id}", map[string]int{"a": 1})
			worker := settings.StartWorker(t)

			var answer harness.Jobs
			harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": []int{1}}).Decode(t, &answer)
			row := db.AwaitDone(t, 1)
			want := map[bool]string{true: "ok", false: "fail"}[c.code == 0]
			if harness.Text(row.Result) != want || row.Code == nil || *row.Code != c.code || answer.Jobs["1"].Result != want {
				t.Errorf("row %s, answer %s: want %s with code %d", row, answer.Jobs["1"], want, c.code)
			}
			if got := harness.Text(row.Stdout); got != c.row {
				t.Errorf("the row has %d bytes, ending %q; want %d, ending %q", len(got), tail(got), len(c.row), tail(c.row))
			}
			kept := journalled(t, settings["journal_dir"], 1).Stdout
			if !bytes.Equal(kept.Kept, []byte(c.kept)) {
				t.Errorf("the journal has %d bytes, ending %q; want %d, ending %q", len(kept.Kept), tail(string(kept.Kept)), len(c.kept), tail(c.kept))
			}
			if size := max(c.size, len(c.kept)); kept.Size != int64(size) {
				t.Errorf("the journal says that %d bytes were written, want %d", kept.Size, size)
			}
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-60):] }

// journalled is how the journal says that a job ended.
func journalled(t *testing.T, dir string, id int64) journal.Done {
	t.Helper()
	reader := must.Get(replay.Open(dir))(t)
	filter := journal.Filter{Job: id, Kinds: []journal.Kind{journal.KindDone}, Output: true}
	for event, err := range reader.Events(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		return event.Payload.(journal.Done)
	}
	t.Fatalf("the journal has no end of job %d", id)
	return journal.Done{}
}

// Tables as they are seen in the field: all of them work, with everything that a job can do.
func TestTablesSeenInTheField(t *testing.T) {
	t.Parallel()
	changed := func(pairs ...string) string {
		table := strings.NewReplacer(pairs...).Replace(dbserver.JobsTable)
		if table == dbserver.JobsTable {
			t.Fatalf("%q changes nothing", pairs)
		}
		return table
	}
	cases := []struct {
		name, table string
		settings    harness.Settings
	}{
		{name: "bigint ids", table: changed("`id` int(10)", "`id` bigint(20)")},
		{name: "long targets", table: changed("char(16)", "varchar(200)")},
		{name: "targets in an ENUM", table: changed("`target` char(16)", "`target` enum('b','a','reports/daily')")},
		{name: "another index", table: changed("KEY `status_target_idx` (`status`, `target`, `id`)", "KEY `by_target` (`target`, `status`, `id`)")},
		{name: "utf8mb4", table: changed("CHARSET=utf8", "CHARSET=utf8mb4")},
		{name: "latin1", table: changed("CHARSET=utf8", "CHARSET=latin1")},
		{name: "output NOT NULL", table: changed("mediumtext DEFAULT NULL", "varchar(500) NOT NULL DEFAULT ''")},
		{name: "output in longtext", table: changed("mediumtext", "longtext")},
		{name: "columns of the application's own", table: changed("PRIMARY KEY", "`payload` text DEFAULT NULL, `tries` int NOT NULL DEFAULT 7, PRIMARY KEY")},
		{
			name: "claims in a column of their own", table: changed("PRIMARY KEY", "`claimed_by` char(10) DEFAULT NULL, PRIMARY KEY"),
			settings: harness.Settings{"claim_column": "claimed_by"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t, c.table)
			launcher := harness.Script(t, `case $1 in 1|4) echo "out $1";; 2) echo bad >&2; exit 255;; 3) kill -TERM $$;; esac`)
			worker := db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 2}).With(c.settings).StartWorker(t)
			for id := range int64(3) {
				db.Insert(t, id+1, "a", "waiting")
			}
			db.Insert(t, 4, "a", "manual")
			client := harness.Dial(t, worker.Addr)
			client.Ask(t, "poll", nil)
			var answer harness.Jobs
			client.Ask(t, "run-manual", map[string]any{"ids": []int{4}}).Decode(t, &answer)
			want := []string{"ok 0 NULL out 1", "fail 255 NULL ", "fail NULL SIGTERM ", "ok 0 NULL out 4"}
			for i, want := range want {
				check.Equal(t, ending(db.AwaitDone(t, int64(i+1))), want, "job %d", i+1)
			}
		})
	}
}

// ending is a row's result, code, signal and output in one line.
func ending(row harness.Row) string {
	code := "NULL"
	if row.Code != nil {
		code = fmt.Sprint(*row.Code)
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", harness.Text(row.Result), code, harness.Text(row.Sig), harness.Text(row.Stdout)), "\n")
}

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
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for id, target := range []string{"", "default", "reports/daily", "mail:out"} {
		if id > 0 {
			db.Insert(t, int64(id), target, "waiting")
		}
	}
	worker := harness.Launch(t, "jobd", file, "127.0.0.1:"+port).Ready(t)

	for id := int64(1); id <= 3; id++ {
		row := db.AwaitDone(t, id)
		want := fmt.Sprintf("3 --job %d \"%d\"|production; really||none|%s\n", id, id, cwd)
		check.Equal(t, harness.Text(row.Stdout), want, "job %d wrote", id)
	}
	client := harness.Dial(t, worker.Addr)
	client.Send(t, `[0,{"no":1,"type":"status","password":"p;a#ss \"word\""}]`)
	response, _ := client.Answer(t)
	var status struct {
		Targets map[string]struct{ Concurrency int }
	}
	response.Decode(t, &status)
	check.Equal(t, fmt.Sprint(status.Targets), "map[default:{2} mail:out:{3} reports/daily:{1}]", "targets")
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
