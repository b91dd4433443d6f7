package board

import "jobd/journal"

// DoubtRetries remembers rows that were to be set back, by events of which it is not known whether
// they were committed; or, where lost tells why, certainly were not. clients wait for the answer. A
// row that is claimed here meanwhile was set back.
func (b *Board) DoubtRetries(events []journal.Event, clients map[int64]Client, lost func(id int64) string) Effects {
	for _, e := range events {
		of, is := e.Payload.(journal.Retried)
		if !is {
			continue
		}
		if b.Holds(e.Job) {
			b.effects.Settled = append(b.effects.Settled, Settled{Client: clients[e.Job]})
			continue
		}
		d := newRetryDoubt(of)
		if d.client = clients[e.Job]; lost != nil {
			d.lost = lost(e.Job)
		}
		b.doubts[e.Job] = d
	}
	b.effects.Wake = true
	return b.follow()
}

// DoubtRetried remembers a row that a former run has set back.
func (b *Board) DoubtRetried(id int64, of journal.Retried) {
	if !b.Holds(id) {
		b.doubts[id] = newRetryDoubt(of)
	}
}

func newRetryDoubt(of journal.Retried) *doubt {
	return &doubt{Accepted: journal.Accepted{Target: of.Target}, retried: &of}
}

// judgeRetry takes in what the table said of a row that was to be set back. Where it reads as it
// did before, that was not committed: between a retry and the next end the second changes. Anything
// else came after it, its being deleted among that.
func (b *Board) judgeRetry(id int64, d *doubt, row journal.Row) {
	of := d.retried
	if row.Status == of.From && row.Finished == of.Finished && row.Result == of.Result {
		d.lost = "the update was not committed: the row is " + row.Status
		return
	}
	b.settle(id)
	b.effects.Settled = append(b.effects.Settled, Settled{Client: d.client})
	if row.Status == journal.RowWaiting {
		b.effects.Free = append(b.effects.Free, row.Target)
	}
}

// Unretried says that a row was not set back.
func Unretried(id int64, why string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Conflict{Wanted: journal.WantedRetried, Reason: why}}
}
