package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"jobd/journal"
)

// Sealed is a sealed segment open for reading. It implements source.
type Sealed struct {
	path    string
	file    *os.File // nil: nothing was read of it yet
	trailer trailer
	header  Header      // without a number: not known yet
	last    [2]struct { // the block that was read last, without output and with it
		index   int // one more than that; 0: none
		records []Record
	}
	blocks []block
	pages  []jobPage
}

// OpenSealed opens a sealed segment, wherever it lies. The caller closes it. A *DamagedError says that
// it is none.
func OpenSealed(path string) (*Sealed, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &Sealed{path: path, file: file}
	if err := s.open(); err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sealed) open() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < int64(trailerSize) {
		return s.damaged(0, fmt.Errorf("it has %d bytes, fewer than its end alone takes", info.Size()))
	}
	end := make([]byte, trailerSize)
	if _, err := s.file.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return s.damaged(0, fmt.Errorf("read its end: %w", err))
	}
	s.trailer, err = parseTrailer(end, info.Size())
	return s.damaged(0, err)
}

// load reads the directory where that was not done yet.
func (s *Sealed) load() error {
	if s.blocks != nil {
		return nil
	}
	directory, err := s.frame(s.trailer.Directory, s.trailer.AfterFrames-s.trailer.Directory)
	if err == nil {
		s.blocks, s.pages, err = decodeDirectory(directory, &s.trailer)
	}
	return s.damaged(s.trailer.First, err)
}

// damaged says that the file is not what was sealed; nil stays nil.
func (s *Sealed) damaged(seq uint64, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
		return err
	}
	return &journal.DamagedError{Seq: seq, Detail: fmt.Sprintf("sealed segment %s", s.path), Err: err}
}

// reach opens the file where that was not done yet.
func (s *Sealed) reach() (err error) {
	if s.file == nil {
		s.file, err = os.Open(s.path)
	}
	return err
}

// frame reads and decompresses what stands at a place.
func (s *Sealed) frame(at, size uint64) ([]byte, error) {
	if at > s.trailer.AfterFrames || size > s.trailer.AfterFrames-at {
		return nil, errBlock
	}
	if err := s.reach(); err != nil {
		return nil, err
	}
	compressed := make([]byte, size)
	if _, err := s.file.ReadAt(compressed, int64(at)); err != nil {
		return nil, err
	}
	return decoder().DecodeAll(compressed, nil)
}

// Header implements source.
func (s *Sealed) Header(context.Context) (Header, error) {
	if s.header.Number != 0 {
		return s.header, nil
	}
	content, err := s.frame(0, s.trailer.Header)
	if err != nil {
		return Header{}, s.damaged(s.trailer.First, err)
	}
	h, err := parseHeader(content)
	if err != nil || h.First != s.trailer.First || h.Number != int(s.trailer.Number) {
		return Header{}, s.damaged(s.trailer.First, fmt.Errorf("its header contradicts its end"))
	}
	return h, nil
}

// End implements source.
func (s *Sealed) End(context.Context) (uint64, journal.Hash, error) {
	return s.trailer.Last, s.trailer.Hash, nil
}

// Records implements source: a page is what is selected of a block.
func (s *Sealed) Records(ctx context.Context, sel Selection) iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {
		wanted, err := s.selectBlocks(sel)
		if err != nil {
			yield(nil, upTo(s.trailer.Last, err))
			return
		}
		for i := range wanted {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			all, err := s.block(i, sel.Output)
			if err != nil {
				yield(nil, upTo(s.lastOf(i), err))
				return
			}
			var page []Record
			for n := range all {
				if sel.has(&all[n]) {
					page = append(page, all[n])
				}
			}
			if len(page) > 0 && !yield(page, nil) {
				return
			}
		}
	}
}

// lastOf is the sequence number of a block's last record, by the directory.
func (s *Sealed) lastOf(i int) uint64 {
	if i+1 < len(s.blocks) {
		return s.blocks[i+1].First - 1
	}
	return s.trailer.Last
}

// upTo says where damage ends.
func upTo(last uint64, err error) error {
	var d *journal.DamagedError
	if errors.As(err, &d) {
		d.Last = last
	}
	return err
}

// selectBlocks gives the indexes of the blocks that may hold what is selected.
func (s *Sealed) selectBlocks(sel Selection) (iter.Seq[int], error) {
	if sel.Job != 0 && (sel.Job < s.trailer.LowJob || sel.Job > s.trailer.HighJob) {
		return func(func(int) bool) {}, nil
	}
	var indexes []int
	if sel.Job != 0 {
		var err error
		if indexes, err = s.blocksOf(sel.Job); err != nil || len(indexes) == 0 {
			return slices.Values(indexes), err
		}
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	first := max(0, sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].First > sel.After+1 })-1)
	end := len(s.blocks)
	if sel.End > 0 {
		end = sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].First >= sel.End })
	}
	if sel.Job == 0 {
		return func(yield func(int) bool) {
			for i := first; i < end && yield(i); i++ {
			}
		}, nil
	}
	indexes = slices.DeleteFunc(indexes, func(i int) bool { return i < first || i >= end })
	return slices.Values(indexes), nil
}

// blocksOf gives the indexes of the blocks in which a job occurs.
func (s *Sealed) blocksOf(job int64) (indexes []int, err error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	first := max(0, sort.Search(len(s.pages), func(i int) bool { return s.pages[i].First >= job })-1)
	for _, page := range s.pages[first:] {
		if page.First > job {
			break
		}
		entries, err := s.page(page)
		if err != nil {
			return nil, err
		}
		at, _ := slices.BinarySearchFunc(entries, JobBlock{job, -1}, compareJobBlocks)
		for ; at < len(entries) && entries[at].job == job; at++ {
			indexes = append(indexes, entries[at].block)
		}
	}
	return indexes, nil
}

func (s *Sealed) page(p jobPage) ([]JobBlock, error) {
	content, err := s.frame(p.At, p.Frame)
	if err == nil {
		var entries []JobBlock
		if entries, err = decodePage(content); err == nil {
			return entries, nil
		}
	}
	return nil, s.damaged(s.trailer.First, err)
}

// block gives the records of a block: those of a job are read one by one, each with the one before it, and many
// are in the same block.
func (s *Sealed) block(i int, output bool) ([]Record, error) {
	last := &s.last[1]
	if last.index != i+1 && !output {
		last = &s.last[0]
	}
	if last.index == i+1 {
		return last.records, nil
	}
	records, err := s.readBlock(i, output)
	if last.index = 0; err == nil {
		last.index, last.records = i+1, records
	}
	return records, err
}

// readBlock reads the records of a block. What could be read before an error comes with it.
func (s *Sealed) readBlock(i int, output bool) ([]Record, error) {
	b := s.blocks[i]
	content, err := s.frame(b.At, uint64(b.Frame))
	if err != nil {
		return nil, s.damaged(b.First, err)
	}
	var outputs []byte
	if output && b.OutputFrame > 0 {
		if outputs, err = s.frame(b.At+uint64(b.Frame), b.OutputFrame); err != nil {
			return nil, s.damaged(b.First, err)
		}
	}
	records, err := parseRecords(content, outputs, output)
	if err == nil && (len(content) != int(b.Bytes) || output && len(outputs) != int(b.OutputBytes) ||
		records[0].Seq != b.First || records[0].Micros != b.Micros) {
		err = errBlock
	}
	return records, s.damaged(b.First, err)
}

// Close implements source.
func (s *Sealed) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Bounds implements source.
func (s *Sealed) Bounds() (Bounds, bool) {
	t := &s.trailer
	return Bounds{t.Last, t.Begun, t.Ended, t.Hash}, true
}

// Examine implements source. The trailer, which was read, says of which version the file is.
func (s *Sealed) Examine(context.Context) (bool, error) { return true, nil }

// Name implements source.
func (s *Sealed) Name() string { return filepath.Base(s.path) }

// CheckRest implements source: the sum over the file, the job index, which must be where jobs really
// occur, and what its end says of them, by which readers pass it over. It sorts occurring.
func (s *Sealed) CheckRest(ctx context.Context, occurring []JobBlock) error {
	if err := s.checkSum(ctx); err != nil {
		return err
	}
	return s.checkIndex(occurring)
}

func (s *Sealed) checkIndex(occurring []JobBlock) error {
	slices.SortFunc(occurring, compareJobBlocks)
	if t := &s.trailer; t.Begun != s.blocks[0].Micros ||
		len(occurring) > 0 && (t.LowJob > occurring[0].job || t.HighJob < occurring[len(occurring)-1].job) {
		return s.damaged(t.First, fmt.Errorf("its end does not agree with its events"))
	}
	for _, page := range s.pages {
		entries, err := s.page(page)
		if err != nil {
			return err
		}
		if len(entries) == 0 || len(entries) > len(occurring) || entries[0].job != page.First || !slices.Equal(entries, occurring[:len(entries)]) {
			return s.damaged(s.trailer.First, fmt.Errorf("its job index does not agree with its events"))
		}
		occurring = occurring[len(entries):]
	}
	if len(occurring) > 0 {
		return s.damaged(s.trailer.First, fmt.Errorf("its job index does not know all events"))
	}
	return nil
}

// checkSum reads the whole file and compares its sum.
func (s *Sealed) checkSum(ctx context.Context) error {
	if err := s.reach(); err != nil {
		return err
	}
	sum := sha256.New()
	size := int64(s.trailer.AfterFrames) + int64(trailerSize) - int64(len(journal.Hash{}))
	if _, err := io.CopyN(sum, io.NewSectionReader(s.file, 0, size), size); err != nil || ctx.Err() != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if !bytes.Equal(sum.Sum(nil), s.trailer.Sum[:]) {
		return s.damaged(s.trailer.First, fmt.Errorf("its bytes are not those that were written"))
	}
	return nil
}

// IsCopyOf reports whether two sealed files are of the same segment, by what their ends say, and
// then whether this one's bytes are those that were written.
func (s *Sealed) IsCopyOf(ctx context.Context, other *Sealed) (bool, error) {
	if s.trailer != other.trailer {
		return false, nil
	}
	return true, s.checkSum(ctx)
}
