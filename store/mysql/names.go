package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// targetColumn is what the column target is like.
type targetColumn struct {
	layout *layout // of the table as it was then
	column
	primary bool // the table's primary key begins with the id
}

// targets is what the column target is like; it asks where that is not known, or was when the table was another.
func (t *Table) targets(ctx context.Context) (*targetColumn, error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	if known := t.claims.column.Load(); known != nil && known.layout == found {
		return known, nil
	}
	fresh := &targetColumn{layout: found, column: found.target}
	err = t.retry(ctx, func() error {
		return t.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?
			AND INDEX_NAME = 'PRIMARY' AND SEQ_IN_INDEX = 1 AND LOWER(COLUMN_NAME) = 'id'`, t.name.database, t.name.table).Scan(&fresh.primary)
	})
	if err != nil {
		return nil, err
	}
	t.claims.column.Store(fresh)
	return fresh, nil
}

// comparable gives those of some names that the column can be compared with: where a name has characters that the
// column's character set lacks, the server refuses the whole statement (1267).
func (t *Table) comparable(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	lacking, err := t.lacking(ctx, names)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return lacking[name] != "" }), nil
}

// lacking tells which names have characters that the column's character set does not have, in words.
func (t *Table) lacking(ctx context.Context, names []string) (map[string]string, error) {
	found, err := t.targets(ctx)
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	var doubtful []string
	for _, name := range names {
		switch {
		case !utf8.ValidString(name):
			words[name] = "it is not valid UTF-8"
		case !found.surelyHas(name):
			doubtful = append(doubtful, name)
		}
	}
	for some := range slices.Chunk(doubtful, waitingLimit) {
		err := t.ask(ctx, some, func(string) (string, []any) {
			return "CAST(CONVERT(" + found.converted("?") + " USING utf8mb4) AS BINARY) = CAST(? AS BINARY)", nil
		}, 2, func(name string, has bool) {
			if !has {
				words[name] = fmt.Sprintf("it has characters that the column target (character set %s) lacks", found.charset)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return words, nil
}

// surelyHas tells without asking that the column's character set has all of a name's characters.
func (c *targetColumn) surelyHas(name string) bool {
	most := rune(utf8.RuneSelf - 1)
	switch c.charset {
	case "", "binary", "utf8mb4":
		return true
	case "utf8", "utf8mb3":
		most = 0xFFFF
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r > most })
}

// converted is an expression as the column would hold it; text is one, too.
func (c *targetColumn) converted(text string) string {
	if c.charset == "" || c.charset == "binary" {
		return "CAST(" + text + " AS BINARY)"
	}
	return "CONVERT(" + text + " USING " + c.charset + ")"
}

// compared is an expression that compares as the column does.
func (c *targetColumn) compared(text string) string {
	if c.collation == "" {
		return c.converted(text)
	}
	return c.converted(text) + " COLLATE " + c.collation
}

// ask asks the server the same of each name, in one round trip: the condition may begin with the name as its argument so many times
// as mentions says; further arguments follow.
func (t *Table) ask(ctx context.Context, names []string, condition func(name string) (text string, args []any), mentions int,
	answer func(name string, yes bool),
) error {
	if len(names) == 0 {
		return nil
	}
	var query strings.Builder
	var args []any
	for i, name := range names {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		text, more := condition(name)
		fmt.Fprintf(&query, "SELECT %d, %s", i, text)
		for range mentions {
			args = append(args, name)
		}
		args = append(args, more...)
	}
	return t.retry(ctx, func() error {
		return t.each(ctx, query.String(), args, func(results *sql.Rows) error {
			var place int
			var yes bool
			err := results.Scan(&place, &yes)
			if err == nil {
				answer(names[place], yes)
			}
			return err
		})
	})
}

// each reads all rows of a query.
func (t *Table) each(ctx context.Context, query string, args []any, row func(*sql.Rows) error) error {
	results, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer results.Close()
	for results.Next() {
		if err := row(results); err != nil {
			return err
		}
	}
	return results.Err()
}
