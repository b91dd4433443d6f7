package mysql

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"
)

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
