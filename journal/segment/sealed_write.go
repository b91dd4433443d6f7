package segment

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"jobd/journal"
)

// SealWriter writes a sealed segment: begin, add for each record, finish.
type SealWriter struct {
	file    *os.File
	buffer  *bufio.Writer
	sum     hash.Hash
	out     io.Writer // to both
	encoder *zstd.Encoder
	frame   []byte // the newest frame

	trailer trailer
	at      uint64 // how much was written
	records []byte // of the block in hand
	output  []byte
	current block
	blocks  []block
	here    []int64 // the jobs of the block in hand
	jobs    []JobBlock
}

// NewSealWriter begins a file, which must not exist.
func NewSealWriter(path string, h Header) (*SealWriter, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &SealWriter{file: f, buffer: bufio.NewWriterSize(f, 256<<10), sum: sha256.New(), encoder: newEncoder(zstd.SpeedDefault)}
	w.out = io.MultiWriter(w.buffer, w.sum)
	w.trailer = trailer{Number: uint64(h.Number), First: h.First, LowJob: 1<<63 - 1, HighJob: -1 << 63}
	if w.trailer.Header, err = w.writeFrame(h.bytes()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// Add adds the next record.
func (w *SealWriter) Add(r *Record) error {
	if len(w.records) == 0 {
		w.current = block{At: w.at, First: r.Seq, Micros: r.Micros}
	}
	if w.trailer.Last == 0 {
		w.trailer.Begun = r.Micros
	}
	w.trailer.Last, w.trailer.Ended, w.trailer.Hash = r.Seq, r.Micros, r.Hash
	if r.Job != 0 {
		w.here = append(w.here, r.Job)
	}
	w.records = appendRecord(w.records, r)
	w.output = append(append(w.output, r.Stdout...), r.Stderr...)
	if len(w.records) >= blockSize || len(w.output) >= blockOutput {
		return w.endBlock()
	}
	return nil
}

func (w *SealWriter) endBlock() error {
	if len(w.records) == 0 {
		return nil
	}
	frame, err := w.writeFrame(w.records)
	if err != nil {
		return err
	}
	w.current.Frame, w.current.Bytes, w.current.OutputBytes = uint32(frame), uint32(len(w.records)), uint64(len(w.output))
	if len(w.output) > 0 {
		if w.current.OutputFrame, err = w.writeFrame(w.output); err != nil {
			return err
		}
	}
	w.jobs = AppendJobs(w.jobs, w.here, len(w.blocks))
	w.blocks = append(w.blocks, w.current)
	w.records, w.output, w.here = w.records[:0], w.output[:0], w.here[:0]
	return nil
}

// AppendJobs appends an entry for each job that occurs in a block; it sorts occurring.
func AppendJobs(jobs []JobBlock, occurring []int64, index int) []JobBlock {
	slices.Sort(occurring)
	for _, job := range slices.Compact(occurring) {
		jobs = append(jobs, JobBlock{job, index})
	}
	return jobs
}

// Finish writes index and trailer and makes everything durable.
func (w *SealWriter) Finish() error {
	if err := w.endBlock(); err != nil {
		return err
	}
	slices.SortFunc(w.jobs, compareJobBlocks)
	var pages []jobPage
	for entries := range slices.Chunk(w.jobs, pageEntries) {
		page := jobPage{At: w.at, First: entries[0].job}
		var err error
		if page.Frame, err = w.writeFrame(encodePage(entries)); err != nil {
			return err
		}
		pages = append(pages, page)
	}
	if len(w.jobs) > 0 {
		w.trailer.LowJob, w.trailer.HighJob = w.jobs[0].job, w.jobs[len(w.jobs)-1].job
	}
	w.trailer.Directory, w.trailer.Blocks, w.trailer.JobPages = w.at, uint64(len(w.blocks)), uint64(len(pages))
	if _, err := w.writeFrame(encodeDirectory(w.blocks, pages)); err != nil {
		return err
	}
	w.trailer.AfterFrames = w.at
	end := w.trailer.bytes()
	if _, err := w.out.Write(end[:len(end)-len(journal.Hash{})]); err != nil {
		return err
	}
	_, err := w.buffer.Write(w.sum.Sum(nil))
	return errors.Join(err, w.buffer.Flush(), w.file.Sync())
}

// writeFrame writes a compressed frame and gives its size.
func (w *SealWriter) writeFrame(content []byte) (uint64, error) {
	w.frame = w.encoder.EncodeAll(content, w.frame[:0])
	n, err := w.out.Write(w.frame)
	w.at += uint64(n)
	return uint64(n), err
}

// Close gives the file free, whether or not it was finished.
func (w *SealWriter) Close() error {
	return errors.Join(w.encoder.Close(), w.file.Close())
}
