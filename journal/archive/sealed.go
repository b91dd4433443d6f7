package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"jobd/journal"
)

// A sealed segment is one zstd file, which any zstd program reads and tests:
//
//	header     a frame: header.bytes
//	block 1    a frame: up to 128 KiB of records, and, where there is output, a frame of the records' output
//	block 2    …
//	job pages  a frame each: which jobs are in which blocks, sorted
//	directory  a frame: where blocks and pages are, and what they begin with
//	trailer    a skippable frame: the segment's bounds, where the directory is, and the SHA-256
//	           of everything before that sum
//
// A record is the bytes that its hash covers (record.appendFixed), the lengths of stdout and stderr
// (four bytes each, big endian), and the hash. So verifying needs no second encoding, and reading
// without output does not touch the output. Everything is read at its place: a reader holds the
// directory, some 70 bytes a block, and the blocks in hand.

const (
	blockSize   = 128 << 10 // of records, uncompressed; a block ends with the record that reaches it
	blockOutput = 1 << 20   // likewise of output
	pageEntries = 4096      // of a job page
)

// trailer is the end of a sealed file: fixed size, little endian as zstd's own numbers.
type trailer struct {
	Magic, Size           uint32 // of the skippable frame
	Name                  [8]byte
	Version               uint64
	Number                uint64
	First, Last           uint64       // sequence numbers
	Begun, Ended          int64        // times of the first and the last event, in microseconds since 1970
	LowJob, HighJob       int64        // of the jobs that occur; low is above high where none does
	Hash                  journal.Hash // of the last event
	Header                uint64       // size of the header's frame, which is at 0
	Directory, Blocks     uint64       // where the frame is, and how many entries of each sort it has
	JobPages, AfterFrames uint64       // AfterFrames is where the trailer begins
	Sum                   journal.Hash // SHA-256 of the file before this field
}

var (
	trailerName = [8]byte{'j', 'o', 'b', 'd', 's', 'e', 'a', 'l'}
	trailerSize = binary.Size(trailer{})
)

const (
	sealedVersion  = 1
	skippableMagic = 0x184d2a50
)

// bytes is the trailer with everything but its sum, which is 32 zero bytes.
func (t *trailer) bytes() []byte {
	t.Magic, t.Size, t.Name, t.Version = skippableMagic, uint32(trailerSize-8), trailerName, sealedVersion
	b, err := binary.Append(nil, binary.LittleEndian, t)
	if err != nil {
		panic("journal: the trailer is of fixed size: " + err.Error())
	}
	return b
}

// parseTrailer reads what bytes has written, of a file of a known size.
func parseTrailer(b []byte, fileSize int64) (t trailer, err error) {
	if _, err := binary.Decode(b, binary.LittleEndian, &t); err != nil {
		return t, errors.New("it is too short")
	}
	switch {
	case t.Magic != skippableMagic || t.Name != trailerName || t.Size != uint32(trailerSize-8):
		return t, errors.New("its end is not that of a sealed segment")
	case t.Version > sealedVersion:
		return t, fmt.Errorf("version %d was written by a newer jobd; this one knows version %d", t.Version, sealedVersion)
	case t.AfterFrames != uint64(fileSize)-uint64(trailerSize) || t.Directory > t.AfterFrames || t.Header > t.Directory ||
		t.Version == 0 || t.Last < t.First || t.Last > lastSeq || t.Blocks == 0:
		return t, errors.New("its end contradicts itself")
	}
	return t, nil
}

// block says where a block is and what it begins with.
type block struct {
	At           uint64 // where its frames are, the records' first
	Frame, Bytes uint32 // of the records: compressed, uncompressed
	OutputFrame  uint64 // likewise of the output; 0 where there is none
	OutputBytes  uint64
	First        uint64 // sequence number of the first record
	Micros       int64  // its time
}

// jobPage says where a page of the job index is and which job it begins with.
type jobPage struct {
	At    uint64
	Frame uint64
	First int64
}

// JobBlock is an entry of the job index: a job has events in a block.
type JobBlock struct {
	job   int64
	block int
}

func compareJobBlocks(a, b JobBlock) int {
	return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.block, b.block))
}

func encodeDirectory(blocks []block, pages []jobPage) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, blocks)
	if err == nil {
		b, err = binary.Append(b, binary.LittleEndian, pages)
	}
	if err != nil {
		panic("journal: the directory is of fixed size: " + err.Error())
	}
	return b
}

func decodeDirectory(b []byte, t *trailer) ([]block, []jobPage, error) {
	each, eachPage := uint64(binary.Size(block{})), uint64(binary.Size(jobPage{}))
	if n := uint64(len(b)); t.Blocks > n/each || t.JobPages > n/eachPage || t.Blocks*each+t.JobPages*eachPage != n {
		return nil, nil, errors.New("its directory contradicts its end")
	}
	blocks, pages := make([]block, t.Blocks), make([]jobPage, t.JobPages)
	reader := bytes.NewReader(b)
	err := binary.Read(reader, binary.LittleEndian, blocks)
	if err == nil {
		err = binary.Read(reader, binary.LittleEndian, pages)
	}
	return blocks, pages, err
}

// encodePage is the entries as differences, each a varint.
func encodePage(entries []JobBlock) []byte {
	var b []byte
	before := JobBlock{}
	for _, e := range entries {
		b = binary.AppendVarint(b, e.job-before.job)
		b = binary.AppendVarint(b, int64(e.block-before.block))
		before = e
	}
	return b
}

func decodePage(b []byte) ([]JobBlock, error) {
	var entries []JobBlock
	before := JobBlock{}
	for len(b) > 0 {
		job, n := binary.Varint(b)
		index, m := binary.Varint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			return nil, errors.New("a page of its job index is not readable")
		}
		before = JobBlock{before.job + job, before.block + int(index)}
		entries, b = append(entries, before), b[n+m:]
	}
	return entries, nil
}

// appendRecord appends a record to a block.
func appendRecord(b []byte, r *Record) []byte {
	b = r.appendFixed(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Stdout)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Stderr)))
	return append(b, r.Hash[:]...)
}

// errBlock says that a block's bytes are no records.
var errBlock = errors.New("a block does not hold what its directory says")

// parseRecords is the reverse of appendRecord for a whole block. The records point into it and into
// output, which is nil where it is not wanted.
func parseRecords(b, output []byte, withOutput bool) ([]Record, error) {
	records := make([]Record, 0, len(b)/100+1)
	for len(b) > 0 {
		if len(b) < 28 {
			return records, errBlock
		}
		r := Record{
			Seq: binary.BigEndian.Uint64(b), Micros: int64(binary.BigEndian.Uint64(b[8:])), Job: int64(binary.BigEndian.Uint64(b[16:])),
		}
		kind, rest, ok := cutSized(b[24:])
		payload, rest, ok2 := cutSized(rest)
		if !ok || !ok2 || len(rest) < 8+len(r.Hash) {
			return records, errBlock
		}
		r.Kind, r.Payload = journal.Kind(kind), payload
		stdout, stderr := binary.BigEndian.Uint32(rest), binary.BigEndian.Uint32(rest[4:])
		copy(r.Hash[:], rest[8:])
		if b = rest[8+len(r.Hash):]; withOutput {
			if uint64(len(output)) < uint64(stdout)+uint64(stderr) {
				return records, errBlock
			}
			r.Stdout, output = some(output[:stdout:stdout]), output[stdout:]
			r.Stderr, output = some(output[:stderr:stderr]), output[stderr:]
		}
		records = append(records, r)
	}
	if len(records) == 0 || len(output) > 0 {
		return records, errBlock
	}
	return records, nil
}

// some is bytes, or nil where there are none.
func some(bytes []byte) []byte {
	if len(bytes) == 0 {
		return nil
	}
	return bytes
}

// cutSized cuts off bytes that stand behind their length.
func cutSized(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	size := uint64(binary.BigEndian.Uint32(b))
	if uint64(len(b)-4) < size {
		return nil, nil, false
	}
	return b[4 : 4+size : 4+size], b[4+size:], true
}

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

// newEncoder makes a zstd encoder for blocks of up to some hundred KiB. EncodeAll may be called
// concurrently.
func newEncoder(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("journal: zstd does not take its options: " + err.Error())
	}
	return e
}

// maxFrame bounds what a compressed frame may claim to hold.
const maxFrame = 4 << 30

// decoder is the zstd decoder of all that read. DecodeAll may be called concurrently.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		panic("journal: zstd does not take its options: " + err.Error())
	}
	return d
})

// zstdMagic is what every zstd frame begins with.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// minPacked is from how many bytes on compressing a job's output is tried.
const minPacked = 256

// pack is a job's output as the open segment stores it: compressed where that saves an eighth, else
// as it is. Output that looks compressed by itself is always wrapped, so that unpack can tell.
func pack(e *zstd.Encoder, output []byte) []byte {
	looks := bytes.HasPrefix(output, zstdMagic)
	if len(output) < minPacked && !looks {
		return output
	}
	packed := e.EncodeAll(output, nil)
	if looks || len(packed) < len(output)/8*7 {
		return packed
	}
	return output
}

// unpack is the reverse of pack. What can't be decompressed stays as it is.
func unpack(stored []byte) []byte {
	if !bytes.HasPrefix(stored, zstdMagic) {
		return stored
	}
	output, err := decoder().DecodeAll(stored, nil)
	if err != nil {
		return stored
	}
	return output
}
