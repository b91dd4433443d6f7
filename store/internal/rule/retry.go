package rule

import (
	"fmt"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// hasEnded is the condition under which a row is retried.
const hasEnded = "status IN ('done','ignored')"

// retry is what a retry makes of its row. The time of its last end stays in the row until the next
// one, so that a worker whose journal knows an earlier end sees that the row was set back since; a
// row that never ended gets the time of the retry.
func retry(row journal.Row, payload journal.Retried, e journal.Event) (Verdict, error) {
	ended := row.Status == journal.RowDone || row.Status == journal.RowIgnored
	back := payload.To == journal.RowWaiting || payload.To == journal.RowManual
	if !ended || !back || row.Status != payload.From || row.Finished != payload.Finished {
		return Verdict{}, fmt.Errorf(" from %s to %s, but its row is %s", payload.From, payload.To, row.Status)
	}
	v := Verdict{status: payload.To, retried: true, times: setBack(payload.To)}
	if row.Finished == 0 {
		v.set = seconds(e.Time)
	}
	return v, nil
}

// Guard is the condition under which the rows of a claim are updated.
func (v Verdict) Guard() string {
	switch {
	case v.retried:
		return hasEnded
	case v.from == fromDelayed:
		return isDelayed
	case v.from == fromAny:
		return isFreeOrDelayed
	}
	return isFree
}

// clear is what a retry sets beside the status: nothing is left of how the job ended but when.
func (v Verdict) clear(d Dialect) []Assignment {
	list := []Assignment{{d.Owner(), d.Word(d.Owner(), "")}, {"time_started", int64(0)}}
	if !strings.EqualFold(d.Owner(), d.Sig()) {
		list = append(list, Assignment{d.Sig(), d.Word(d.Sig(), "")})
	}
	for _, column := range []string{"result", "return_code", "stdout", "stderr"} {
		if value, possible := d.Nothing(column); possible {
			list = append(list, Assignment{column, value})
		}
	}
	if v.set != 0 {
		list = append(list, Assignment{"time_finished", v.set})
	}
	return append(list, v.times.write(d)...)
}

// NothingIn is the value of a column that says nothing: NULL where it takes that, else an empty
// text, or 0 for a return code. A column of a few words that has none for nothing keeps what it
// says.
func NothingIn(column string, nullable, text bool) (value any, possible bool) {
	switch {
	case nullable:
		return nil, true
	case column == "return_code":
		return int64(0), true
	}
	return "", text
}

// RetryAll tells a table's Retry from its claims: decide may only set back, never claim.
func RetryAll(decide store.Decide) store.Decide {
	return func(rows []journal.Row) ([]journal.Event, error) {
		events, err := decide(rows)
		for _, e := range events {
			if e.Kind() != journal.KindRetried {
				return nil, fmt.Errorf("retry job %d: %s: a retry only sets back", e.Job, e.Kind())
			}
		}
		return events, err
	}
}
