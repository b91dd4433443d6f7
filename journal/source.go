package journal

import (
	"context"
	"iter"
	"slices"
)

// source is one segment as readers see it, open or sealed. Whatever it gives is checked for its form only:
// that it is what was appended is for the hash chain to say (see verify.go). fs.ErrNotExist says that
// the segment was sealed or removed meanwhile.
type source interface {
	header(ctx context.Context) (header, error)
	// end gives the last event's sequence number and hash, zeros where there is no event.
	end(ctx context.Context) (uint64, Hash, error)
	// records gives what is selected in pages, in order. Records before an error come with it, and nothing comes after it, unless
	// the selection wants to go on.
	records(ctx context.Context, sel selection) iter.Seq2[[]record, error]
	// firstAt is the sequence number of the first event at or after a time in
	// microseconds; one after the last where there is none.
	firstAt(ctx context.Context, micros int64) (uint64, error)
	// checkRest checks what the events do not tell: indexes, and sums over the file. It is given where jobs
	// occur, by page, in any order.
	checkRest(ctx context.Context, occurring []jobBlock) error
	// setRests has records rest after a page, for so many times as long as it took to read.
	setRests(rests int)
	close() error
}

// selection says which records of a segment are wanted.
type selection struct {
	after, end uint64 // those behind after and before end (0: no end)
	job        int64  // 0: all
	kinds      []Kind // empty: all
	output     bool   // with stdout and stderr; the hash cannot be checked without
	goOn       bool   // behind damage, which is told as a *DamagedError between two pages, with its bounds
}

// has tells whether a record is selected.
func (s *selection) has(r *record) bool {
	return r.seq > s.after && (s.end == 0 || r.seq < s.end) && (s.job == 0 || r.job == s.job) &&
		(len(s.kinds) == 0 || slices.Contains(s.kinds, r.kind))
}
