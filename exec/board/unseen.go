package board

// A claim that finds a free slot starts its job itself, and the mirror writes the end of the one
// before meanwhile. Where it is slower than that (the table takes ends slowly, output is long, the
// server is busy), claims would overtake it for ever: ever more rows would read as under way whose
// jobs are long over, and the table would be owed ever more. So the ends and releases that the
// table does not show yet are counted, and more of them than a target has slots keep it from
// claiming. As the mirror writes all that is pending at once, that is never the case where it keeps
// up.
//
// Nothing of it is journalled, and a new process begins to count anew.

// Behind tells whether nothing is claimed for the target because the table does not show yet how
// its former jobs ended.
func (t *Target) Behind() bool { return t.over() > 0 }

// over is how many more rows the table has to show before the target may claim.
func (t *Target) over() int {
	return t.in[Ending] + t.in[Leaving] + len(t.unseen) - t.concurrency
}

// unseenFrom notes that the row of one of its jobs is owed an event that ends the job's claim.
func (t *Target) unseenFrom(seq uint64) { t.unseen = append(t.unseen, seq) }

// Seen notes that the mirror is done with all events up to seq.
func (b *Board) Seen(seq uint64) {
	for _, t := range b.targets {
		n := 0
		for n < len(t.unseen) && t.unseen[n] <= seq {
			n++
		}
		t.unseen = t.unseen[n:]
	}
}

// Awaited is the first event that lets a target claim again when the table shows it; 0 where the
// table is waited for by none.
func (b *Board) Awaited() (seq uint64) {
	for _, t := range b.targets {
		if over := min(t.over(), len(t.unseen)); over > 0 && (seq == 0 || t.unseen[over-1] < seq) {
			seq = t.unseen[over-1]
		}
	}
	return seq
}
