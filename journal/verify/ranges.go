package verify

import (
	"slices"
	"sort"

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
	First   uint64  `json:"first"`
	Last    uint64  `json:"last"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // what is wrong, or who removed it; "" where nothing is
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

// ranges gives what is known of all events, in order, of a history that begins with first. What is
// known better is painted over the rest: damage over proofs, these over doubts and consistency, and
// what is missing over all.
func (l *links) ranges(first uint64, faults []archive.Fault) []Range {
	var all painting
	runs := append(slices.Clone(l.runs), l.run)
	ended := map[uint64]uint64{} // the last event of the run that begins with one
	for _, r := range runs {
		ended[r.first] = r.last
		all.paint(Range{First: r.first, Last: r.last, Verdict: Consistent})
	}
	for _, d := range slices.Backward(l.against) {
		all.paint(Range{First: max(d.since, first), Last: max(d.seq, ended[d.run]), Verdict: Damaged, Detail: d.detail})
	}
	for _, r := range runs {
		all.paint(Range{First: r.first, Last: r.proven, Verdict: Proven})
	}
	var missing []Range
	for _, f := range slices.Backward(faults) {
		switch {
		case f.Last == 0 || f.Surplus:
		case f.Missing:
			missing = append(missing, Range{First: f.First, Last: f.Last, Verdict: Missing, Detail: f.Text()})
		default:
			all.paint(Range{First: f.First, Last: f.Last, Verdict: Damaged, Detail: f.Text()})
		}
	}
	for _, r := range missing {
		all.paint(r)
	}
	return all.joined()
}

// painting is ranges in the order of their numbers, no two of which have an event in common.
type painting []Range

// paint lays a range over those that are there.
func (p *painting) paint(r Range) {
	if r.First == 0 || r.First > r.Last {
		return
	}
	from := sort.Search(len(*p), func(i int) bool { return (*p)[i].Last >= r.First })
	to := sort.Search(len(*p), func(i int) bool { return (*p)[i].First > r.Last })
	over := []Range{r}
	if from < to {
		if left := (*p)[from]; left.First < r.First {
			left.Last = r.First - 1
			over = []Range{left, r}
		}
		if right := (*p)[to-1]; right.Last > r.Last {
			right.First = r.Last + 1
			over = append(over, right)
		}
	}
	*p = slices.Replace(*p, from, to, over...)
}

// joined joins neighbours of which the same is known.
func (p painting) joined() (ranges []Range) {
	for _, r := range p {
		if n := len(ranges) - 1; n >= 0 && ranges[n].Last+1 == r.First && ranges[n].Verdict == r.Verdict && ranges[n].Detail == r.Detail {
			ranges[n].Last = r.Last
		} else {
			ranges = append(ranges, r)
		}
	}
	return ranges
}
