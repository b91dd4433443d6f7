package verify

import (
	"cmp"
	"slices"

	"jobd/journal/archive"
)

// Verdict says what is known of a range of events.
type Verdict string

// The verdicts.
const (
	Proven     Verdict = "proven"     // an anchor agrees, and every one of them is chained to it
	Consistent Verdict = "consistent" // in themselves: chained to each other, each legal after those before it
	Damaged    Verdict = "damaged"    // not what was written, or nothing shows that it is
	Missing    Verdict = "missing"    // not there, and no event says that retention removed it
	Removed    Verdict = "removed"    // by retention
)

// Range is events that follow each other and of which the same is known.
type Range struct {
	First   uint64
	Last    uint64
	Verdict Verdict
	Detail  string // what is wrong; "" where nothing is
}

// links collects what is known of events in the order of their numbers: in runs, within which each
// is chained to the one before.
type links struct {
	next    uint64    // the number that comes next; 0: nothing is known yet
	run     chained   // in hand; its first is 0 where there is none
	runs    []chained // those before
	against []disagreement
	agreed  uint64 // the newest event that an anchor agrees with
}

// chained is events that are chained to each other, without a gap.
type chained struct {
	first, last uint64
	proven      uint64 // the newest that an anchor agrees with
}

// disagreement is an event that somebody knows otherwise: nothing between it and the newest event
// that an anchor agreed with before is sound, nor is what goes on from it.
type disagreement struct {
	since, seq uint64
	run        uint64 // the first event of its run; 0: of none
	detail     string
}

// sound takes in the next event, which goes on from the one before.
func (l *links) sound(seq uint64) {
	if l.run.first == 0 {
		l.run.first = seq
	}
	l.run.last, l.next = seq, seq+1
}

// cut ends the run in hand: what follows is not chained to it.
func (l *links) cut() {
	if l.run.first > 0 {
		l.runs = append(l.runs, l.run)
	}
	l.run = chained{}
}

// agrees notes that an anchor agrees with an event of the run in hand.
func (l *links) agrees(seq uint64) {
	l.agreed = max(l.agreed, seq)
	l.run.proven = seq
}

// disagrees notes that an anchor knows an event of the run in hand otherwise.
func (l *links) disagrees(seq uint64, detail string) {
	l.against = append(l.against, disagreement{min(l.agreed+1, seq), seq, l.run.first, detail})
}

// piece is a range with how much its verdict counts: where several are about an event, the highest
// counts.
type piece struct {
	Range
	weight int
}

const (
	weightConsistent = iota
	weightDoubted
	weightProven
	weightDamaged
	weightMissing
)

// ranges gives what is known of all events, in order, of a history that begins with first.
func (l *links) ranges(first uint64, faults []archive.Fault) []Range {
	var pieces []piece
	add := func(weight int, r Range) {
		if r.First > 0 && r.First <= r.Last {
			pieces = append(pieces, piece{r, weight})
		}
	}
	ended := map[uint64]uint64{} // the last event of the run that begins with one
	for _, r := range append(slices.Clone(l.runs), l.run) {
		if r.first == 0 {
			continue
		}
		ended[r.first] = r.last
		add(weightConsistent, Range{First: r.first, Last: r.last, Verdict: Consistent})
		add(weightProven, Range{First: r.first, Last: r.proven, Verdict: Proven})
	}
	for _, d := range l.against {
		add(weightDoubted, Range{First: max(d.since, first), Last: max(d.seq, ended[d.run]), Verdict: Damaged, Detail: d.detail})
	}
	for _, f := range faults {
		switch {
		case f.Last == 0 || f.Surplus:
		case f.Missing:
			add(weightMissing, Range{First: f.First, Last: f.Last, Verdict: Missing, Detail: f.Text()})
		default:
			add(weightDamaged, Range{First: f.First, Last: f.Last, Verdict: Damaged, Detail: f.Text()})
		}
	}
	return flatten(pieces)
}

// flatten lays pieces on top of each other, and joins neighbours of which the same is known.
func flatten(pieces []piece) (ranges []Range) {
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.First, b.First) })
	var open []piece // those that reach into what comes next
	var at uint64
	for len(open) > 0 || len(pieces) > 0 {
		if len(open) == 0 {
			at = pieces[0].First
		}
		for len(pieces) > 0 && pieces[0].First <= at {
			open, pieces = append(open, pieces[0]), pieces[1:]
		}
		top, end := open[0], uint64(1<<64-1)
		for _, p := range open {
			if p.weight > top.weight {
				top = p
			}
			end = min(end, p.Last)
		}
		if len(pieces) > 0 {
			end = min(end, pieces[0].First-1)
		}
		next := Range{First: at, Last: end, Verdict: top.Verdict, Detail: top.Detail}
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == at && ranges[n-1].Verdict == next.Verdict && ranges[n-1].Detail == next.Detail {
			ranges[n-1].Last = end
		} else {
			ranges = append(ranges, next)
		}
		at = end + 1
		open = slices.DeleteFunc(open, func(p piece) bool { return p.Last < at })
	}
	return ranges
}
