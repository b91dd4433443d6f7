package rule

import (
	"fmt"
	"strconv"
	"strings"

	"jobd/journal"
)

// Verdict is what a claim makes of some of its rows: they get the status, and,
// where the token is not empty, the owner.
type Verdict struct {
	Status string
	Token  string
	Jobs   []int64
}

// Verdicts gathers the drafts that decide answered for the locked rows: rows
// that get the same status and token stand together. A draft for another row, for a row that is not
// waiting or manual, or of another kind is an error.
func Verdicts(rows []journal.Row, drafts []journal.Draft) ([]Verdict, error) {
	locked := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		locked[row.Job] = row
	}
	var verdicts []Verdict
	place := map[[2]string]int{}
	for _, draft := range drafts {
		status, token, err := decided(locked, draft)
		if err != nil {
			return nil, fmt.Errorf("claim job %d: %w", draft.Job, err)
		}
		at, known := place[[2]string{status, token}]
		if !known {
			at = len(verdicts)
			place[[2]string{status, token}] = at
			verdicts = append(verdicts, Verdict{Status: status, Token: token})
		}
		verdicts[at].Jobs = append(verdicts[at].Jobs, draft.Job)
	}
	return verdicts, nil
}

// decided is the status and the owner that a draft gives its row.
func decided(locked map[int64]journal.Row, draft journal.Draft) (status, token string, err error) {
	row, ok := locked[draft.Job]
	if !ok {
		return "", "", fmt.Errorf("%s, but it is not among the rows of this claim", draft.Payload.Kind())
	}
	if row.Status != journal.RowWaiting && row.Status != journal.RowManual {
		return "", "", fmt.Errorf("%s, but its row is %s: only waiting and manual rows are claimed", draft.Payload.Kind(), row.Status)
	}
	switch payload := draft.Payload.(type) {
	case journal.Accepted:
		return journal.RowAccepted, payload.Token, nil
	case journal.Ignored:
		return journal.RowIgnored, "", nil
	default:
		return "", "", fmt.Errorf("%s: a claim only accepts and ignores", draft.Payload.Kind())
	}
}

// List is ids as SQL takes them between the brackets of IN.
func List(ids []int64) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, ",")
}
