package history

import (
	"errors"
	"iter"

	"jobd/journal"
)

// read gives the events that a filter selects, and ends at the first error.
type read func(journal.Filter) iter.Seq2[journal.Event, error]

// mostDamages is how many damaged places one query reads past.
const mostDamages = 100

// newest gives the newest f.Last events that can be read, however the journal is damaged among them, and
// then the damage. Events behind a damaged one are still those that were written after it: their hashes
// rest on the one that the damaged event bears. Where all that was wanted is damaged, the newest events
// before that are given.
func (r read) newest(f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		given := 0
		for e, err := range r.pastDamage(f) {
			if err != nil && given == 0 && damageOf(err) != nil {
				for _, before := range r.lastOf(f) {
					if !yield(before, nil) {
						return
					}
				}
			}
			if given++; !yield(e, err) {
				return
			}
		}
	}
}

// lastOf reads everything that can be read, and keeps the newest f.Last events of it.
func (r read) lastOf(f journal.Filter) []journal.Event {
	wanted := f.Last
	f.Last = 0
	var last []journal.Event
	for e, err := range r.pastDamage(f) {
		if err != nil {
			break
		}
		if last = append(last, e); len(last) >= 2*wanted {
			last = append(last[:0], last[len(last)-wanted:]...)
		}
	}
	return last[max(0, len(last)-wanted):]
}

// pastDamage goes on behind damaged events, and ends with the first error that it met.
func (r read) pastDamage(f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		var first error
		for range mostDamages {
			var met error
			for e, err := range r(f) {
				if met = err; err == nil && !yield(e, nil) {
					return
				}
			}
			if first == nil {
				first = met
			}
			damage := damageOf(met)
			if damage == nil || damage.Seq <= f.After {
				break
			}
			// What the filter selects behind the damage is among the newest that it selected before.
			f.After, f.Last = max(damage.Seq, damage.Last), 0
		}
		if first != nil {
			yield(journal.Event{}, first)
		}
	}
}

// damageOf is the damage that an error tells of; nil where it tells of another thing.
func damageOf(err error) *journal.DamagedError {
	var damage *journal.DamagedError
	errors.As(err, &damage)
	return damage
}
