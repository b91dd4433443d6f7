package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// Reader receives messages. It is for one goroutine.
type Reader struct {
	buffer *bufio.Reader
	body   bytes.Buffer
	codec  codec
}

// readBuffer is how much one read brings at most.
const readBuffer = 32 << 10

// mostBody bounds a message: an environment, or a list of all jobs.
const mostBody = 64 << 20

// NewReader makes a reader of what a peer sends.
func NewReader(socket io.Reader) *Reader {
	return &Reader{buffer: bufio.NewReaderSize(socket, readBuffer)}
}

// Next receives one message, with the output that follows it.
func (r *Reader) Next() (Message, error) {
	m, err := r.header()
	if err != nil || m.Later {
		return m, err
	}
	for _, o := range []*journal.Output{&m.Done.Stdout, &m.Done.Stderr} {
		if _, err := io.ReadFull(r.buffer, o.Kept); err != nil {
			return Message{}, fmt.Errorf("receive output: %w", err)
		}
	}
	return m, nil
}

func (r *Reader) header() (Message, error) {
	length, err := r.buffer.Peek(lengthBytes)
	if err != nil {
		return Message{}, err
	}
	size := int64(binary.LittleEndian.Uint32(length))
	if size > mostBody {
		return Message{}, fmt.Errorf("receive message of %d bytes: %w", size, ErrMalformed)
	}
	_, _ = r.buffer.Discard(lengthBytes) // they are there
	r.body.Reset()
	if _, err := io.CopyN(&r.body, r.buffer, size); err != nil { // it takes memory only as the bytes come
		return Message{}, err
	}
	m, err := r.codec.decode(r.body.Bytes(), math.MaxInt32)
	if r.body.Cap() > 4*readBuffer {
		r.body = bytes.Buffer{} // there are few that are so large
	}
	return m, err
}

// HungUp tells whether an error of reading says that the peer is gone, be it in the middle of a
// message.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
}
