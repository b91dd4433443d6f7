package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// selection is the statements that read the rows of a claim, one result for each.
type selection struct {
	query string
	args  []any
	asks  []ask    // what each result is about; none where rows are chosen by id
	names []string // those that selectRow compares targets with

	met map[string]int // how many waiting rows of each target were met; nil: nobody counts
}

// add puts another statement behind the others.
func (s *selection) add(query string, args ...any) {
	s.query += query + "; "
	s.args = append(s.args, args...)
}

// selectRow begins a statement that reads rows as journal.Row has them. Its last column is the
// place of the row's target among the named ones, as the column's collation compares; 0: it is none
// of them. The names must be such that the column can be compared with them.
func (t *Table) selectRow(names int, found *layout) string {
	place := "0"
	if names > 0 {
		place = "COALESCE(FIELD(target" + strings.Repeat(", ?", names) + "), 0)"
	}
	return "SELECT id, COALESCE(target, 'null'), COALESCE(status, ''), COALESCE(" + quote(t.config.ClaimColumn) + ", ''), " + found.created.seconds() + ", " +
		found.finished.seconds() + ", COALESCE(result, ''), " + place + found.planned() +
		" FROM " + t.name.quoted()
}

// line is one row of selectRow.
type line struct {
	journal.Row
	odd      string // the id's text, where it is no id to us
	place    int
	priority int64
	ask      ask // that it was chosen for, where rows are chosen by target
}

// scanLine reads one row of selectRow. No content of the table makes it fail.
func (t *times) scanLine(results *sql.Rows) (l line, err error) {
	var id rowID
	l.priority, err = t.scan(results, &l.Row, &id, &l.Target, &l.Status, &l.Owner, &l.Created, &l.Finished, &l.Result, &l.place)
	l.Job, l.odd = id.number, id.odd
	return l, err
}

// rowID is a row's id as the table has it.
type rowID struct {
	number int64
	odd    string // its text, where it is 0 or not within 64 bits
}

// Scan implements sql.Scanner.
func (id *rowID) Scan(value any) error {
	switch value := value.(type) {
	case int64:
		*id = rowID{number: value}
	case []byte:
		*id = parseID(string(value))
	default:
		*id = parseID(fmt.Sprint(value))
	}
	if id.number == 0 && id.odd == "" {
		id.odd = strconv.FormatInt(id.number, 10)
	}
	return nil
}

func parseID(text string) rowID {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return rowID{odd: text}
	}
	return rowID{number: number}
}

// lock begins the transaction and locks and reads the chosen rows, in one round trip.
func (t *Table) lock(ctx context.Context, conn *sql.Conn, found *layout, start string, chosen selection) ([]journal.Row, error) {
	rows, _, err := t.lockAfter(ctx, conn, found, 0, start, chosen)
	return rows, err
}

// lockAfter is lock where statements that read ids stand before those of the selection: it gives
// these ids too.
func (t *Table) lockAfter(ctx context.Context, conn *sql.Conn, found *layout, before int, start string, chosen selection) (
	rows []journal.Row, ids []int64, err error,
) {
	var lines []line
	results, err := conn.QueryContext(ctx, start+chosen.query, chosen.args...)
	if err != nil {
		return nil, nil, err
	}
	defer results.Close()
	for n := -before; ; n++ {
		for results.Next() {
			if n < 0 {
				err = scanID(results, &ids)
			} else {
				err = t.collect(results, found, chosen, n, &lines)
			}
			if err != nil {
				return nil, nil, err
			}
		}
		if !results.NextResultSet() {
			return rule.Distinct(found.first(lines)), ids, results.Err()
		}
	}
}

// scanID adds the id of a result that has nothing else.
func scanID(results *sql.Rows, ids *[]int64) error {
	var id rowID
	err := results.Scan(&id)
	if id.odd == "" {
		*ids = append(*ids, id.number)
	}
	return err
}

// collect adds a row of the selection's result n. One that no worker can claim is reported and left
// out.
func (t *Table) collect(results *sql.Rows, found *layout, chosen selection, n int, lines *[]line) error {
	one, err := found.scanLine(results)
	if err != nil {
		return err
	}
	switch {
	case n < len(chosen.asks):
		one.ask = chosen.asks[n]
		one.Target = one.ask.target // the collation may have matched another spelling
	case one.place > 0:
		one.Target = chosen.names[one.place-1]
	}
	if one.odd != "" {
		t.claims.odd.Report(one.odd, one.Target, t.config.OnOdd)
		return nil
	}
	if chosen.met != nil && one.Status == journal.RowWaiting {
		chosen.met[one.Target]++
	}
	*lines = append(*lines, one)
	return nil
}

// first gives the rows of lines: of each target as many as were wanted, where several results were
// about it.
func (t *times) first(lines []line) []journal.Row {
	var rows []journal.Row
	for len(lines) > 0 {
		target := lines[0].ask.target
		n := 1
		for n < len(lines) && lines[n].ask.target == target {
			n++
		}
		some := lines[:n]
		if room := some[0].ask.room; room > 0 && t.ordered() {
			some = inOrder(some, room, some[0].ask.sweep)
		}
		for _, one := range some {
			rows = append(rows, one.Row)
		}
		lines = lines[n:]
	}
	return rows
}

// but is the condition that leaves out rows by their ids, those that are no ids to us among them.
func (t *Table) but(except []int64) string {
	odd, ranged := t.claims.odd.Known()
	words := odd
	if len(except) > 0 {
		words = append([]string{rule.List(except)}, odd...)
	}
	condition := ""
	if len(words) > 0 {
		condition = " AND id NOT IN (" + strings.Join(words, ",") + ")"
	}
	if ranged {
		condition += " AND id BETWEEN 1 AND 9223372036854775807"
	}
	return condition
}

// ask is how many rows of a target are wanted.
type ask struct {
	target string
	room   int
	behind int64 // only rows with a greater id
	sweep  bool  // they are wanted in the order of ids

	onward int64     // waiting rows are looked for behind this id; 0: from the front, see onward.go
	front  time.Time // when they were last looked for from there
}

// beyond is the condition that a row is behind those that are passed over.
func (a ask) beyond() string { return behind(a.behind) }

// beyondLast is the same for rows that wait: a claim may go on behind the one before.
func (a ask) beyondLast() string { return behind(max(a.behind, a.onward)) }

func behind(id int64) string {
	if id == 0 {
		return ""
	}
	return " AND id > " + strconv.FormatInt(id, 10)
}
