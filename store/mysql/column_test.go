package mysql_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// Output ends up in the row as far as the column can hold it (pitfall 10).
func TestPitfall10Columns(t *testing.T) {
	t.Parallel()
	const text = "aé€ж中\U0001F600"
	const cutAt1MiB = "\n[jobd: output cut, 1048576 bytes in all]\n"
	long := strings.Repeat("€", 1<<20/3) + "x"
	cases := []struct {
		name, column, output, want string
		note                       bool
	}{
		{"utf8mb4", "text CHARACTER SET utf8mb4", text, text, false},
		{"utf8", "text CHARACTER SET utf8", text, "aé€ж中\uFFFD", false},
		{"ucs2", "text CHARACTER SET ucs2", text, "aé€ж中\uFFFD", false},
		{"utf16", "text CHARACTER SET utf16", text, text, false},
		{"utf32", "text CHARACTER SET utf32", text, text, false},
		{"latin1", "text CHARACTER SET latin1", text, "aé????", false},
		{"ascii", "text CHARACTER SET ascii", text, "a?????", false},
		{"cp1251 holds it", "text CHARACTER SET cp1251", "aж€", "aж€", false},
		{"cp1251 does not", "text CHARACTER SET cp1251", "aж中", "a??", true},
		{"cp1251 and invalid bytes", "text CHARACTER SET cp1251", "aж\xff", "aж?", false},
		{"blob", "blob", text, text, false},
		{"NOT NULL", "text NOT NULL", "", "", false},
		{"text, too long", "text CHARACTER SET utf8mb4", long, strings.Repeat("€", (65535-len(cutAt1MiB))/3) + cutAt1MiB, false},
		{"utf16, too long", "text CHARACTER SET utf16", long, strings.Repeat("€", (32767-len(cutAt1MiB))/3) + cutAt1MiB, false},
		{"varchar, too long", "varchar(60) CHARACTER SET utf8mb4", long, strings.Repeat("€", (60-len(cutAt1MiB))/3) + cutAt1MiB, false},
		{"too short for the mark", "varchar(10) CHARACTER SET utf8mb4", long, "€€€", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, replaced("`stdout` mediumtext DEFAULT NULL", "`stdout` "+c.column))
			const id = 1
			db.exec(t, "INSERT INTO jobs (id, target, time_created, status, sig, stdout) VALUES (1, 'a', 1, 'running', ?, '')", token)
			got, err := db.table(t).Apply(t.Context(), []store.Change{done(id, c.output)})
			if err != nil || got[0].Fate != store.Applied || (got[0].Note != "") != c.note {
				t.Fatalf("Apply: %+v, %v; want it applied", got, err)
			}
			db.expect(t, id, "status result return_code", "done ok 0")
			if stored := db.stdout(t, id); stored != c.want {
				t.Errorf("stdout is %d bytes, %.60q; want %d bytes, %.60q", len(stored), stored, len(c.want), c.want)
			}
		})
	}
}

func (d *database) stdout(t *testing.T, id int64) string {
	t.Helper()
	var text string
	must.Do(t, d.app.QueryRow("SELECT COALESCE(stdout, 'NULL') FROM jobs WHERE id = ?", id).Scan(&text))
	return text
}

// Updates that are too big for the server's max_allowed_packet are cut, those that
// are too many are split.
func TestPitfall9PacketLimit(t *testing.T) {
	t.Parallel()
	server := newServer(t, "--max-allowed-packet=1M")
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	table := db.table(t)
	big := journal.Output{Kept: bytes.Repeat([]byte("'\n\\\x00€"), 1<<20/2), Size: 7 << 19}
	cases := []struct {
		name           string
		stdout, stderr journal.Output
	}{
		{"both", big, big},
		{"stdout", big, journal.Output{Kept: []byte("x"), Size: 1}},
		{"stderr", journal.Output{}, big},
	}
	var changes []store.Change
	for _, c := range cases {
		change := done(db.insert(t, "a", journal.RowRunning, token), "")
		change.Done.Stdout, change.Done.Stderr = c.stdout, c.stderr
		changes = append(changes, change)
	}
	for range 6 {
		changes = append(changes, done(db.insert(t, "a", journal.RowRunning, token), strings.Repeat("x", 300<<10)))
	}
	got := must.Get(table.Apply(t.Context(), changes))(t)
	for i, outcome := range got {
		if outcome != (store.Outcome{}) {
			t.Errorf("change %d: %+v", i, outcome)
		}
	}
	mark := "%[jobd: output cut, 3670016 bytes in all]\n"
	for i, c := range cases {
		var out, err int
		var outCut, errCut bool
		must.Do(t, db.app.QueryRow("SELECT LENGTH(stdout), LENGTH(stderr), stdout LIKE ?, stderr LIKE ? FROM jobs WHERE id = ?", mark, mark, changes[i].Job).
			Scan(&out, &err, &outCut, &errCut))
		if out+err < 500_000 || outCut != (len(c.stdout.Kept) > 1) || errCut != (len(c.stderr.Kept) > 1) {
			t.Errorf("%s: %d bytes of stdout (cut: %t), %d of stderr (cut: %t); want as much as fits", c.name, out, outCut, err, errCut)
		}
	}
	for _, change := range changes[3:] {
		db.expect(t, change.Job, "status LENGTH(stdout)", "done 307200")
	}
}

// A limit that is lowered while the worker runs is found out.
func TestPitfall9LimitLowered(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	table := db.table(t)
	id := db.insert(t, "a", journal.RowRunning, token)
	db.exec(t, "SET GLOBAL max_allowed_packet = 1048576")
	db.killAll(t)
	outcomes := untilApplied(t, table, []store.Change{done(id, strings.Repeat("x", 5<<20))})
	if outcomes[0].Fate != store.Applied {
		t.Errorf("got %+v", outcomes[0])
	}
	db.expect(t, id, "status RIGHT(stdout,41)", "done [jobd: output cut, 5242880 bytes in all]\n")
}

// One target's name outside of the column's character set does not fail the others (1267).
func TestNameOutsideTheCharset(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, replaced("CHARSET=utf8", "CHARSET=latin1"))
	table := db.table(t)
	id := db.insert(t, "a", journal.RowWaiting, "")
	db.insert(t, "b", journal.RowRunning, "")
	room := map[string]int{"a": 1, "b": 1, "😀": 1, "дом": 1}
	targets := []string{"😀", "a", "b", "дом", "ä"}
	if got, err := table.Waiting(t.Context(), targets, nil); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("Waiting: %v, %v", got, err)
	}
	if rows, err := table.UnderWay(t.Context(), token, targets); err != nil || len(rows) != 1 {
		t.Errorf("UnderWay: %v, %v", rows, err)
	}
	if err := table.Claim(t.Context(), room, nil, accept); err == nil || store.IsAway(err) {
		t.Errorf("a claim with names that are unfit: %v", err)
	}
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1, "b": 1}, nil, accept))
	db.expect(t, id, "status", "accepted")
}

// What names the table can't serve, and why.
func TestNames(t *testing.T) {
	t.Parallel()
	noPad := "utf8mb4_nopad_bin" // MariaDB's; MySQL has others that count blanks
	if !shared.IsMariaDB() {
		noPad = "utf8mb4_0900_bin"
	}
	cases := []struct {
		name  string
		table string
		ask   []string
		want  map[string]string
	}{
		{
			"the usual table", dbserver.JobsTable,
			[]string{"a", "b", "A", "a ", "ä", "😀", "longer than sixteen", "exactly sixteen!", "\xff", "b"},
			map[string]string{"A": `for "a"`, "a ": `for "a"`, "ä": `for "a"`, "😀": "lacks", "longer than sixteen": "19 characters", "\xff": "UTF-8"},
		},
		{"a binary collation", replaced("CHARSET=utf8", "CHARSET=utf8mb4 COLLATE=utf8mb4_bin"), []string{"a", "A", "😀", "a "}, map[string]string{"a ": `for "a"`}},
		{
			"a collation that counts blanks", replaced("`target` char(16)", "`target` varchar(16)", "CHARSET=utf8", "CHARSET=utf8mb4 COLLATE="+noPad),
			[]string{"a", "a "},
			map[string]string{},
		},
		{"latin1", replaced("CHARSET=utf8", "CHARSET=latin1"), []string{"a", "ö", "дом"}, map[string]string{"дом": "lacks"}},
		{
			"target an ENUM", replaced("`target` char(16)", "`target` enum('b','it''s','a,c')"),
			[]string{"b", "B", "it's", "a,c", "c"},
			map[string]string{"B": `for "b"`, "c": "no row can match"},
		},
		{"bytes", replaced("`target` char(16)", "`target` varbinary(4)"), []string{"a", "A", "abcde"}, map[string]string{"abcde": "5 characters"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := must.Get(newDatabase(t, c.table).table(t).Names(t.Context(), c.ask))(t)
			for name, why := range got {
				if c.want[name] == "" || !strings.Contains(why, c.want[name]) {
					t.Errorf("%q: %s; want %q", name, why, c.want[name])
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// nullable is a table in which everything but the id may be NULL.
func nullable() string {
	return replaced(
		"`target` char(16) NOT NULL", "`target` char(16) DEFAULT NULL",
		"`time_created` int(10) UNSIGNED NOT NULL", "`time_created` int(10) UNSIGNED DEFAULT NULL",
		"`time_started` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_started` int(10) UNSIGNED DEFAULT NULL",
		"`time_finished` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_finished` int(10) UNSIGNED DEFAULT NULL",
		"NOT NULL DEFAULT 'waiting'", "DEFAULT NULL",
	)
}

// Regression: a NULL in time_started, time_finished or target, columns that are accepted at start,
// made the mirror repeat a Scan error for ever, after a restart too.
func TestNullInAnyColumn(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, nullable())
	const rows = 5
	db.exec(t, `INSERT INTO jobs (id, target, time_created, time_started, time_finished, status, result, sig) VALUES
		(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
		(2, 'a', NULL, NULL, NULL, 'done', NULL, NULL),
		(3, NULL, 1, 1, 1, 'waiting', 'ok', NULL),
		(4, 'a', 1, NULL, NULL, 'running', NULL, '@abcd01234'),
		(5, 'a', 7, NULL, NULL, 'accepted', NULL, '@abcd01234'), (6, NULL, 1, NULL, NULL, 'running', NULL, '@abcd01234')`)
	changes := []store.Change{done(1, "x"), done(2, "x"), done(3, "x"), done(4, "x"), done(5, "x")}
	want := []store.Outcome{
		{Fate: store.Lost, Found: &journal.Row{Job: 1, Target: "null"}},
		{Fate: store.Lost, Found: &journal.Row{Job: 2, Target: "a", Status: "done"}},
		{Fate: store.Lost, Found: &journal.Row{Job: 3, Target: "null", Status: "waiting"}},
		{},
		{},
	}
	for _, name := range []string{"at first", "after a restart"} {
		table := db.table(t)
		got, err := table.Apply(t.Context(), changes)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check.Diff(t, want, got, "%s: outcomes", name)
		seen, err := table.Look(t.Context(), []int64{1, 2, 3, 4, 5})
		if err != nil || len(seen) != rows {
			t.Fatalf("%s: Look: %v, %v", name, seen, err)
		}
		check.Diff(t, &store.Seen{Row: journal.Row{Job: 1, Target: "null"}}, seen[1], "%s: the row that is NULL", name)
		if seen[5].Created != 7 || seen[5].Started != 0 {
			t.Errorf("%s: job 5: %+v", name, seen[5])
		}
		_, err = table.ClaimManual(t.Context(), []int64{3}, []string{"a", "null"}, func(rows []journal.Row) ([]journal.Event, error) {
			if len(rows) != 1 || rows[0].Target != "null" {
				t.Errorf("%s: by hand: %+v", name, rows)
			}
			return nil, nil
		})
		under, err2 := table.UnderWay(t.Context(), token, []string{"a"})
		if err := errors.Join(err, err2); err != nil || len(under) != 1 || under[0].Target != "null" {
			t.Errorf("%s: under way: %+v, %v", name, under, err)
		}
	}
}

// time_created is the application's: whatever its type, a look at the row succeeds.
func TestTimeCreatedOfAnyType(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind, value string
		want        int64
	}{
		{"bigint UNSIGNED", "1700000000", 1700000000},
		{"bigint UNSIGNED", "18446744073709551615", math.MaxInt64},
		{"int", "-5", -5},
		{"decimal(20,6)", "1700000000.4", 1700000000},
		{"double", "1700000000.4", 1700000000},
		{"timestamp", "FROM_UNIXTIME(1700000000)", 1700000000},
		{"datetime", "'2023-11-14 22:13:20'", 0},
		{"date", "'2023-11-14'", 0},
		{"varchar(30)", "'yesterday'", 0},
		{"varchar(30)", "'1700000000'", 1700000000},
	}
	for _, c := range cases {
		t.Run(c.kind+" "+c.value, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, replaced("`time_created` int(10) UNSIGNED NOT NULL", "`time_created` "+c.kind+" NOT NULL"))
			db.exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (1, 'a', "+c.value+")")
			seen, err := db.table(t).Look(t.Context(), []int64{1})
			if err != nil || seen[1] == nil || seen[1].Created != c.want {
				t.Errorf("Look: %+v, %v; want it created at %d", seen[1], err, c.want)
			}
		})
	}
}
