package eventlog

import (
	"jobd/journal"
)

// appending is one call of Append under way.
type appending struct {
	drafts  []journal.Draft
	encoded []encoded // the same, see encodeAll
	events  []journal.Event
	err     error
	turn    chan bool // receives true when this call is to lead, false when events or err is set
}

func newAppending(drafts []journal.Draft) *appending {
	return &appending{drafts: drafts, encoded: encodeAll(drafts), turn: make(chan bool, 2)}
}

// mayRoll reports whether an append may begin a new segment. What retention says does not: else an
// idle worker would begin one for each that it removes.
func (a *appending) mayRoll() bool {
	if len(a.drafts) != 1 {
		return len(a.drafts) > 0
	}
	_, removal := a.drafts[0].Payload.(journal.Retention)
	return !removal
}
