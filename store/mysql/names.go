package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Names implements store.Table.
func (t *Table) Names(ctx context.Context, names []string) (unfit map[string]string, err error) {
	found, err := t.judgeNames(ctx, names)
	if err != nil {
		return nil, t.fail("compare the names of targets", err)
	}
	unfit = make(map[string]string, len(found))
	for name, reason := range found {
		unfit[name] = reason.String()
	}
	return unfit, nil
}

// unserved is why a name can't be served, and the statement that mends it; "": there is none.
type unserved struct{ why, remedy string }

func (m unserved) String() string {
	if m.remedy == "" {
		return m.why
	}
	return m.why + "; " + m.remedy
}

// judgeNames is Names with reasons and remedies apart.
func (t *Table) judgeNames(ctx context.Context, names []string) (unfit map[string]unserved, err error) {
	found, err := t.targets(ctx)
	if err != nil {
		return nil, err
	}
	names = distinctNames(names)
	lacking, err := t.lacking(ctx, names)
	if err != nil {
		return nil, err
	}
	unfit = map[string]unserved{}
	for name, why := range lacking {
		unfit[name] = unserved{why: why}
		if utf8.ValidString(name) {
			unfit[name] = unserved{why, t.modify(quote(found.name) + " " + found.definition + " CHARACTER SET utf8mb4" + found.rest())}
		}
	}
	steps := []func(ctx context.Context, found *targetColumn, names []string, unfit map[string]unserved) error{
		t.findTrailing, t.findLong, t.findStrangers, t.findEqual,
	}
	for _, step := range steps {
		rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return unfit[name] != unserved{} })
		if err := step(ctx, found, rest, unfit); err != nil {
			return nil, err
		}
	}
	return unfit, nil
}

// distinctNames drops names that are there already.
func distinctNames(names []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// findTrailing finds names that end in blanks where the column drops these and its collation counts
// them.
func (t *Table) findTrailing(ctx context.Context, found *targetColumn, names []string, unfit map[string]unserved) error {
	if found.kind != "char" {
		return nil
	}
	blank := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, " ") })
	return t.ask(ctx, blank, func(name string) (string, []any) {
		return found.compared("?") + " = " + found.compared("?"), []any{strings.TrimRight(name, " ")}
	}, 1, func(name string, same bool) {
		if !same {
			unfit[name] = unserved{
				fmt.Sprintf("it ends in a blank, which the column target (%s) does not keep", found.definition),
				t.modify(found.declared(fmt.Sprintf("varchar(%d)", found.length))),
			}
		}
	})
}

// findLong finds names that are longer than the column.
func (t *Table) findLong(_ context.Context, found *targetColumn, names []string, unfit map[string]unserved) error {
	unit, longest := "characters", 0
	switch found.kind {
	case "char", "varchar":
	case "binary", "varbinary":
		unit = "bytes"
	default:
		return nil
	}
	length := func(name string) int {
		if found.isBytes() {
			return len(name)
		}
		return utf8.RuneCountInString(strings.TrimRight(name, " "))
	}
	for _, name := range names {
		longest = max(longest, length(name))
	}
	for _, name := range names {
		if length(name) > found.length {
			unfit[name] = unserved{
				fmt.Sprintf("it has %d %s, the column target (%s) can't hold more than %d: no row can match", length(name), unit, found.definition, found.length),
				t.modify(found.declared(widened(found.kind, longest))),
			}
		}
	}
	return nil
}

// findStrangers finds names that an ENUM column does not have.
func (t *Table) findStrangers(ctx context.Context, found *targetColumn, names []string, unfit map[string]unserved) error {
	if found.kind != "enum" {
		return nil
	}
	members := found.members()
	each := found.compared("?") + strings.Repeat(", "+found.compared("?"), len(members)-1)
	var strangers []string
	err := t.ask(ctx, names, func(string) (string, []any) {
		return found.compared("?") + " IN (" + each + ")", members
	}, 1, func(name string, member bool) {
		if !member {
			strangers = append(strangers, name)
		}
	})
	for _, name := range strangers {
		unfit[name] = unserved{
			fmt.Sprintf("it is none of those that the column target (%s) has: no row can match", found.definition),
			t.modify(found.declared(withWords(found.definition, strangers))),
		}
	}
	return err
}

// findEqual finds names that the column takes for an earlier one.
func (t *Table) findEqual(ctx context.Context, found *targetColumn, names []string, unfit map[string]unserved) error {
	if len(names) < 2 {
		return nil
	}
	var list strings.Builder
	var args []any
	for i, name := range names {
		if i > 0 {
			list.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&list, "SELECT %d AS place, %s AS name", i, found.compared("?"))
		args = append(args, name)
	}
	query := "SELECT MIN(earlier.place), later.place FROM (" + list.String() + ") AS earlier JOIN (" + list.String() + ") AS later " +
		"ON earlier.name = later.name AND earlier.place < later.place GROUP BY later.place"
	return t.retry(ctx, func() error {
		return t.each(ctx, query, append(args, args...), func(results *sql.Rows) error {
			var earlier, later int
			err := results.Scan(&earlier, &later)
			if err == nil {
				unfit[names[later]] = unserved{why: fmt.Sprintf("the column target takes it for %q, which is served", names[earlier])}
			}
			return err
		})
	})
}

// targets is what the column target is like; it asks where that is not known, or was when the table
// was another.
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

// comparable gives those of some names that the column can be compared with: where a name has
// characters that the column's character set lacks, the server refuses the whole statement (1267).
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

// lacking tells which names have characters that the column's character set does not have, in
// words.
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

// targetColumn is what the column target is like.
type targetColumn struct {
	layout *layout // of the table as it was then
	column
	primary bool // the table's primary key begins with the id
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

// members are the words of an ENUM column.
func (c *targetColumn) members() []any {
	inner := strings.TrimSuffix(c.definition[strings.Index(c.definition, "(")+1:], ")")
	const apostrophe = "\x00"
	var members []any
	for i, part := range strings.Split(strings.ReplaceAll(inner, "''", apostrophe), "'") {
		if i%2 == 1 {
			members = append(members, strings.ReplaceAll(part, apostrophe, "'"))
		}
	}
	return members
}
