package archive

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"jobd/journal"
)

// Events as they are stored, in any segment: header, record and hash chain, and what a segment gives.

// Header is what a segment opens with. Its hash is the link between the last event of the
// segment before and its own first event.
type Header struct {
	Number     int          // 1, 2, 3, …
	First      uint64       // the sequence number of its first event, whether or not there is one yet
	Previous   journal.Hash // of the event before the first; zero where there is none
	Checkpoint []byte       // the state before the first event, see encodeCheckpoint
}

// Opening is the hash that the segment's first event covers as the one before it: SHA-256 over the
// header's bytes.
func (h Header) Opening() journal.Hash { return sha256.Sum256(h.bytes()) }

const headerFixed = 8 + 8 + len(journal.Hash{})

// bytes is number and first (eight bytes each, big endian), the previous hash and the checkpoint.
func (h Header) bytes() []byte {
	b := make([]byte, 0, headerFixed+len(h.Checkpoint))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Number))
	b = binary.BigEndian.AppendUint64(b, h.First)
	b = append(b, h.Previous[:]...)
	return append(b, h.Checkpoint...)
}

// lastSeq is the last sequence number that there can be: SQLite has none above. A number beyond it in
// a file is damage, so that one more is always a number, too.
const lastSeq = math.MaxInt64

// parseHeader is the reverse of bytes.
func parseHeader(b []byte) (Header, error) {
	if len(b) < headerFixed {
		return Header{}, &journal.DamagedError{Detail: "a segment's header is too short"}
	}
	h := Header{
		Number: int(binary.BigEndian.Uint64(b)), First: binary.BigEndian.Uint64(b[8:]),
		Checkpoint: b[headerFixed:],
	}
	copy(h.Previous[:], b[16:])
	if h.Number < 1 || h.First < 1 || h.First > lastSeq {
		return Header{}, &journal.DamagedError{Detail: fmt.Sprintf("a segment's header has the number %d and the first event %d", h.Number, h.First)}
	}
	return h, nil
}

// Link is the hash that the event after seq covers, where hash is that of seq itself.
func (h Header) Link(seq uint64, hash journal.Hash) journal.Hash {
	if seq+1 == h.First {
		return h.Opening()
	}
	return hash
}

// State is what held before the segment's first event.
func (h Header) State() (*journal.State, error) {
	s, err := journal.DecodeCheckpoint(h.Checkpoint)
	if err != nil {
		return nil, &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("the checkpoint of segment %d is not readable", h.Number), Err: err}
	}
	s.Seq, s.Hash = h.First-1, h.Previous
	return s, nil
}

// NewHeader is the header of the segment that follows a state.
func NewHeader(number int, s *journal.State) (Header, error) {
	checkpoint, err := journal.EncodeCheckpoint(s)
	if err != nil {
		return Header{}, err
	}
	return Header{Number: number, First: s.Seq + 1, Previous: s.Hash, Checkpoint: checkpoint}, nil
}

// Record is an event as it is stored: one row of the events table.
type Record struct {
	Seq            uint64
	Micros         int64 // microseconds since 1970
	Job            int64
	Kind           journal.Kind
	Payload        []byte // JSON
	Stdout, Stderr []byte // of a done event
	Hash           journal.Hash
}

// Encode is the event as a record, without its hash.
func Encode(e journal.Event) (Record, error) {
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s of job %d: %w", e.Kind(), e.Job, err)
	}
	r := Record{
		Seq: e.Seq, Micros: e.Time.UnixMicro(), Job: e.Job,
		Kind: e.Kind(), Payload: payload,
	}
	if done, ok := e.Payload.(journal.Done); ok {
		r.Stdout, r.Stderr = done.Stdout.Kept, done.Stderr.Kept
	}
	return r, nil
}

// Decode is the record as an event.
func (r *Record) Decode() (journal.Event, error) {
	payload, err := r.DecodePayload()
	if err != nil {
		return journal.Event{}, &journal.DamagedError{Seq: r.Seq, Detail: fmt.Sprintf("payload of kind %q", r.Kind), Err: err}
	}
	return journal.Event{
		Seq: r.Seq, Time: time.UnixMicro(r.Micros).UTC(), Job: r.Job,
		Payload: payload, Hash: r.Hash,
	}, nil
}

// size is about how many bytes the record takes on the disk and in memory.
func (r *Record) size() int {
	return recordOverhead + len(r.Payload) + len(r.Stdout) + len(r.Stderr)
}

const recordOverhead = 128

// Chain is the record's hash where previous is the hash of the record before
// it: SHA-256 over previous and the canonical bytes, which are those of appendFixed, then
// stdout and stderr, each behind its length (four bytes, big endian).
func (r *Record) Chain(previous journal.Hash) journal.Hash {
	var small [1024]byte
	b := r.appendFixed(append(small[:0], previous[:]...))
	if len(r.Stdout)+len(r.Stderr) <= len(small)/2 {
		b = appendSized(b, r.Stdout)
		return sha256.Sum256(appendSized(b, r.Stderr))
	}
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint32(b, uint32(len(r.Stdout))))
	sum.Write(r.Stdout)
	sum.Write(binary.BigEndian.AppendUint32(nil, uint32(len(r.Stderr))))
	sum.Write(r.Stderr)
	var h journal.Hash
	sum.Sum(h[:0])
	return h
}

// appendFixed appends what comes before the output in the canonical bytes: the sequence number,
// time and job (eight bytes each, big endian), then kind and payload, each behind its length.
func (r *Record) appendFixed(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Micros))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Job))
	b = appendSized(b, r.Kind)
	return appendSized(b, r.Payload)
}

func appendSized[T []byte | journal.Kind](b []byte, value T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// DecodePayload reads the record's payload.
func (r *Record) DecodePayload() (journal.Payload, error) {
	return journal.DecodePayload(r.Kind, r.Payload, r.Stdout, r.Stderr)
}

// Checked is a page of records after their hashes and numbers were looked at.
type Checked struct {
	Events []journal.Event       // whose numbers and hashes are right
	Damage *journal.DamagedError // what is wrong behind them; nil: nothing
	Jobs   []int64               // of these events, save 0
	Index  int                   // of the page
}

// Verified gives the selected events of a segment with their hashes and their sequence checked,
// start being what the first of them follows. Nothing behind damage counts. Where a job is selected
// each event is checked with the one before it, which is looked up. An event that is not wanted has no payload.
func Verified(ctx context.Context, s Source, sel Selection, start From) iter.Seq2[Checked, error] {
	sel.Output = true
	var before func(uint64) (*Record, error)
	if sel.Job == 0 {
		sel.Kinds = nil
	} else {
		before = func(seq uint64) (*Record, error) { return RecordAt(ctx, s, seq, false) }
	}
	pages := func(ctx context.Context) iter.Seq2[linked, error] {
		return link(s.Records(ctx, sel), linked{From: start, wanted: sel.Wanted}, before)
	}
	return ahead(ctx, pages, linked.check)
}

// From is what the first of some records follows.
type From struct {
	After    uint64
	Previous journal.Hash
}

// linked is a page of records and what it follows.
type linked struct {
	From
	records []Record
	index   int
	wanted  []uint64 // see Selection
}

// link gives each page what it follows, and damage the first event that it may be about. Where records
// between those of the pages are left out, before looks up the one that a record follows, and each is a
// page.
func link(
	pages iter.Seq2[[]Record, error], next linked, before func(seq uint64) (*Record, error),
) iter.Seq2[linked, error] {
	return func(yield func(linked, error) bool) {
		next := next
		for records, err := range pages {
			for length := len(records); len(records) > 0; records = records[length:] {
				if before != nil {
					length = 1
				}
				if seq := records[0].Seq; before != nil && seq != next.After+1 {
					record, err := before(seq - 1)
					if err != nil {
						yield(next, err)
						return
					}
					if next.After = seq - 2; record != nil { // else it is missing
						next.After, next.Previous = record.Seq, record.Hash
					}
				}
				if next.records = records[:length]; !yield(next, nil) {
					return
				}
				last := &records[length-1]
				next.After, next.Previous, next.records = last.Seq, last.Hash, nil
			}
			var damage *journal.DamagedError
			if errors.As(Damaged(err), &damage) {
				known := *damage
				known.Seq = max(known.Seq, next.After+1)
				err = &known
			}
			if err != nil {
				yield(next, err)
				return
			}
			next.index++
		}
	}
}

// check checks sequence and hashes and decodes the events, up to the first damage.
func (l linked) check() Checked {
	c := Checked{Events: make([]journal.Event, 0, len(l.records)), Index: l.index}
	for i := range l.records {
		r := &l.records[i]
		_, wanted := slices.BinarySearch(l.wanted, r.Seq)
		e, damage := r.judge(l.From, wanted || l.wanted == nil)
		if damage != nil {
			c.Damage = damage
			break
		}
		c.Events = append(c.Events, e)
		if r.Job != 0 {
			c.Jobs = append(c.Jobs, r.Job)
		}
		l.After, l.Previous = r.Seq, r.Hash
	}
	return c
}

// judge is a record as an event, with its payload where that is wanted, or what is wrong with it or before it. A
// number that can't be is below 0.
func (r *Record) judge(l From, wanted bool) (e journal.Event, damage *journal.DamagedError) {
	seq := int64(r.Seq)
	switch {
	case seq <= int64(l.After):
		return e, &journal.DamagedError{Seq: l.After + 1, Detail: fmt.Sprintf("event %d follows event %d, where it does not belong", seq, l.After)}
	case r.Seq != l.After+1:
		return e, &journal.DamagedError{Seq: l.After + 1, Last: r.Seq - 1, Detail: fmt.Sprintf("it is missing; event %d follows", seq)}
	case r.Chain(l.Previous) != r.Hash:
		return e, &journal.DamagedError{Seq: r.Seq, Last: r.Seq, Detail: "its hash does not match its content and the event before it"}
	}
	if !wanted {
		return journal.Event{Seq: r.Seq, Hash: r.Hash}, nil
	}
	e, err := r.Decode()
	errors.As(err, &damage)
	return e, damage
}

// ahead maps values on all processors while the caller is busy with those before, and gives the
// results in order. It holds a few values at a time, and has left no goroutine behind when it
// returns. The sequence is run in a goroutine of its own, under a context that ends when nobody
// wants more. Its last error is ctx's where that ended before the sequence did.
func ahead[A, B any](ctx context.Context, values func(context.Context) iter.Seq2[A, error], work func(A) B) iter.Seq2[B, error] {
	type result struct {
		value B
		err   error
	}
	return func(yield func(B, error) bool) {
		caller := ctx
		ctx, cancel := context.WithCancel(ctx)
		results := make(chan chan result, runtime.GOMAXPROCS(0))
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		group.Go(func() {
			defer close(results)
			for value, err := range values(ctx) {
				one := make(chan result, 1)
				select {
				case results <- one:
				case <-ctx.Done():
					return
				}
				group.Go(func() { one <- result{work(value), err} })
			}
		})
		for one := range results {
			r := <-one
			if !yield(r.value, r.err) || r.err != nil {
				return
			}
		}
		if err := caller.Err(); err != nil { // the sequence may have been cut off, and must not look complete
			var none B
			yield(none, err)
		}
	}
}

// Damaged tells SQLite's errors about an unreadable database apart from others.
func Damaged(err error) error {
	var e *sqlite.Error
	var known *journal.DamagedError
	if !errors.As(err, &e) || errors.As(err, &known) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT,
		sqlite3.SQLITE_ERROR: // our statements are right: the tables are not those that they are about
		return &journal.DamagedError{Err: err}
	}
	return err
}

// Full reports whether an error means that the disk has no room.
func Full(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// NoRoom reports whether a journal could not be opened because the disk has no room: for the
// database, or for the file that SQLite keeps beside it and makes anew with each opening. In the
// midst of appending the latter is no Full: the events may stand in the database all the same.
func NoRoom(err error) bool {
	var e *sqlite.Error
	return Full(err) || errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
}

// IsDamage reports whether an error is about the journal, not about the reading.
func IsDamage(err error) bool {
	var d *journal.DamagedError
	return errors.As(Damaged(err), &d)
}

// Source is one segment as readers see it, open or sealed. It checks only the form of what it gives:
// the hash chain says whether that is what was appended (see Verified). fs.ErrNotExist says that the
// segment was sealed or removed meanwhile.
type Source interface {
	Header(ctx context.Context) (Header, error)
	// End gives the last event's sequence number and hash, zeros where there is no event.
	End(ctx context.Context) (uint64, journal.Hash, error)
	// Records gives what is selected in pages, in order. Records before an error come with it, and
	// nothing comes after it, unless the selection wants to go on.
	Records(ctx context.Context, sel Selection) iter.Seq2[[]Record, error]
	// CheckRest checks what the events do not tell: indexes, and sums over the file. It is given
	// where jobs occur, by page, in any order.
	CheckRest(ctx context.Context, occurring []JobBlock) error
	// Bounds is what the segment was sealed with; ok is false where it is not sealed.
	Bounds() (b Bounds, ok bool)
	// Examine looks whether the file is one that this version can read, and holds what this version
	// makes and nothing else. What is not as it should be is damage; found reports whether there is
	// anything in it.
	Examine(ctx context.Context) (found bool, err error)
	// Name is the file's name in its folder.
	Name() string
	Close() error
}

// Bounds is what is known of a sealed segment without reading its events.
type Bounds struct {
	Last         uint64       // the last sequence number
	Begun, Ended int64        // times of the first and the last event, in microseconds since 1970
	Hash         journal.Hash // of the last event
}

// Selection says which records of a segment are wanted.
type Selection struct {
	After, End uint64         // those behind after and before end (0: no end)
	Job        int64          // 0: all
	Kinds      []journal.Kind // empty: all
	Output     bool           // with stdout and stderr; the hash cannot be checked without
	Wanted     []uint64       // of Verified: the payloads of these alone are decoded, in order; nil: of all
}

// has reports whether a record is selected.
func (s *Selection) has(r *Record) bool {
	return r.Seq > s.After && (s.End == 0 || r.Seq < s.End) && (s.Job == 0 || r.Job == s.Job) &&
		(len(s.Kinds) == 0 || slices.Contains(s.Kinds, r.Kind))
}

// RecordAt is one event's record, unchecked; nil where it is not there. Who reads on from there with output, reads it
// with output, too: the block of a sealed segment is decompressed once then.
func RecordAt(ctx context.Context, s Source, seq uint64, output bool) (*Record, error) {
	for page, err := range s.Records(ctx, Selection{After: seq - 1, End: seq + 1, Output: output}) {
		if err != nil {
			return nil, err
		}
		return &page[0], nil
	}
	return nil, nil
}

// FirstAt is the sequence number of a segment's first event at or after a time in microseconds, one
// after the last where there is none: by bisection, since time grows with the sequence number.
func FirstAt(ctx context.Context, s Source, h Header, micros int64) (uint64, error) {
	last, _, err := s.End(ctx)
	low, high := h.First, last+1
	for err == nil && low < high {
		middle := low + (high-low)/2
		var r *Record
		switch r, err = RecordAt(ctx, s, middle, false); {
		case err == nil && r == nil:
			err = &journal.DamagedError{Seq: middle, Detail: "it is missing"}
		case err == nil && r.Micros < micros:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, err
}

// SyncFolder makes the names of new files durable.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Replace writes a small file anew, durably. A crash leaves the file as it was, or the new one.
func Replace(path string, content []byte) error {
	partial := path + partialEnd
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(partial))
	}
	return err
}
