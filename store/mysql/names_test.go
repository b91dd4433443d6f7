package mysql_test

import (
	"slices"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

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
