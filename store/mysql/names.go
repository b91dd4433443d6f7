package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"jobd/store/internal/rule"
)

// Names implements store.Table.
func (t *Table) Names(ctx context.Context, names []string) (unfit map[string]string, err error) {
	unfit, err = t.judgeNames(ctx, names)
	return unfit, t.Fail("compare the names of targets", err)
}

// judgeNames tells why names can't be served. A remedy is told with a name that another column could
// hold.
func (t *Table) judgeNames(ctx context.Context, names []string) (unfit map[string]string, err error) {
	known, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	found := known.columns["target"]
	unfit, err = t.lacking(ctx, names)
	if err != nil {
		return nil, err
	}
	longest := 64
	for _, name := range names {
		bare := strings.TrimRight(name, " ")
		length := utf8.RuneCountInString(bare)
		if found.isBytes() {
			length = len(name)
		}
		longest = max(longest, length)
		switch {
		case unfit[name] != "":
		case found.Holds&(rule.Text|rule.Bytes) != 0 && length > found.Length:
			why := "it has %d characters, the column target (%s) can't hold more than %d: no row can match"
			unfit[name] = fmt.Sprintf(why, length, found.Declared, found.Length)
		case found.Words != nil && !slices.Contains(found.Words, strings.ToLower(bare)):
			unfit[name] = "it is none of those that the column target (" + found.Declared + ") has: no row can match"
		}
	}
	for name := range unfit {
		if utf8.ValidString(name) {
			kind := fmt.Sprintf(" varchar(%d) CHARACTER SET utf8mb4 NOT NULL", longest)
			unfit[name] += "; " + t.modify(quote(found.Name)+kind)
		}
	}
	fit := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return unfit[name] != "" })
	one := func(place int) string {
		return fmt.Sprintf("SELECT %d AS place, %s AS name", place, found.compared("?"))
	}
	return unfit, rule.Alike(fit, unfit, one, func(query string, args []any, row rule.Row) error {
		return t.retry(ctx, func() error { return rule.Each(ctx, t.db, query, args, row) })
	})
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
	known, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	found := known.columns["target"]
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
	lacks := "it has characters that the column target (character set " + found.charset + ") lacks"
	for some := range slices.Chunk(doubtful, waitingLimit) {
		var questions []string
		var args []any
		for i, name := range some {
			question := "SELECT %d, CAST(CONVERT(%s USING utf8mb4) AS BINARY) = CAST(? AS BINARY)"
			questions = append(questions, fmt.Sprintf(question, i, found.converted("?")))
			args = append(args, name, name)
		}
		err := t.retry(ctx, func() error {
			return rule.Each(ctx, t.db, strings.Join(questions, " UNION ALL "), args, func(scan func(...any) error) error {
				var place int
				var has bool
				err := scan(&place, &has)
				if !has {
					words[some[place]] = lacks
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return words, nil
}

// surelyHas tells without asking that the column's character set has all of a name's characters.
func (c column) surelyHas(name string) bool {
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
func (c column) converted(text string) string {
	if c.charset == "" || c.charset == "binary" {
		return "CAST(" + text + " AS BINARY)"
	}
	return "CONVERT(" + text + " USING " + c.charset + ")"
}

// compared is an expression that compares as the column does.
func (c column) compared(text string) string {
	if c.collation == "" {
		return c.converted(text)
	}
	return c.converted(text) + " COLLATE " + c.collation
}

// members are the words of an ENUM column, in lower case.
func (c column) members() (members []string) {
	inner := strings.TrimSuffix(c.Declared[strings.Index(c.Declared, "(")+1:], ")")
	const apostrophe = "\x00"
	for i, part := range strings.Split(strings.ReplaceAll(inner, "''", apostrophe), "'") {
		if i%2 == 1 {
			members = append(members, strings.ToLower(strings.ReplaceAll(part, apostrophe, "'")))
		}
	}
	return members
}
