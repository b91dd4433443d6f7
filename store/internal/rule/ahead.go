package rule

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"jobd/store"
)

// countAhead tells how many rows wait before each waiter, counted up to most. count gives how many
// wait of a target from one id on and before another one, counted up to a limit; the first stretch
// of a target has no beginning. So each stretch between two waiters is looked at once.
func countAhead(
	waiters []store.Waiter, most int, count func(target string, from *int64, before int64, limit int) (int, error),
) (map[int64]store.Ahead, error) {
	sorted := slices.Clone(waiters)
	slices.SortFunc(sorted, func(a, b store.Waiter) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Job, b.Job))
	})
	ahead := make(map[int64]store.Ahead, len(sorted))
	rows := 0
	for i, one := range sorted {
		var from *int64
		if i > 0 && sorted[i-1].Target == one.Target {
			from = &sorted[i-1].Job
		} else {
			rows = 0
		}
		if rows <= most {
			more, err := count(one.Target, from, one.Job, most-rows+1)
			if err != nil {
				return nil, err
			}
			rows += more
		}
		ahead[one.Job] = store.Ahead{Rows: min(rows, most), More: rows > most}
	}
	return ahead, nil
}

// stretch is the condition that rows of a target wait whose ids are in such a stretch.
func stretch(target string, from *int64, before int64) (condition string, args []any) {
	condition, args = "status = 'waiting' AND target = ? AND id < ?", []any{target, before}
	if from != nil {
		condition, args = condition+" AND id >= ?", append(args, *from)
	}
	return condition, args
}

// scanDetail reads one row of a query for details: id, target, status, owner, the three times, result,
// code, sig, the place of the target among the names that are asked for, counted from 1 (0: it is
// none of them), and of stdout and stderr each the size and the end.
func scanDetail(scan func(columns ...any) error, names []string, tailed int) (*store.Detail, error) {
	var row store.Detail
	var place int
	err := scan(
		&row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Started, &row.Finished,
		&row.Result, &row.Code, &row.Sig, &place,
		&row.Stdout.Size, &row.Stdout.Tail, &row.Stderr.Size, &row.Stderr.Tail,
	)
	if place > 0 {
		row.Served = names[place-1]
	}
	for _, output := range []*store.Written{&row.Stdout, &row.Stderr} {
		output.Tail = strings.ToValidUTF8(tail(output.Tail, tailed), string(utf8.RuneError))
	}
	return &row, err
}

// tail is the last bytes of a text, in UTF-8 that begins with a whole character.
func tail(text string, bytes int) string {
	text = text[max(0, len(text)-bytes):]
	for len(text) > 0 && text[0]&0xC0 == 0x80 {
		text = text[1:]
	}
	return text
}
