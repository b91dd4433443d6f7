package rule

import (
	"strings"
	"unicode/utf8"

	"jobd/store"
)

// ScanDetail reads one row of a query for details: id, target, status, owner, the three times, result,
// code, sig, the place of the target among the names that are asked for, counted from 1 (0: it is
// none of them), and of stdout and stderr each the size and the end.
func ScanDetail(scan func(columns ...any) error, names []string, tailed int) (*store.Detail, error) {
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
