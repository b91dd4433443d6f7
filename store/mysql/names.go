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
