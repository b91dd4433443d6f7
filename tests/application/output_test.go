package application

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
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
