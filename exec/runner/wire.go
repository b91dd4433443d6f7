package runner

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"jobd/journal"
)

// wire receives messages, for one goroutine.
type wire struct {
	buffer  *bufio.Reader
	body    bytes.Buffer
	decoder decoder
	batch   []message // of the last receive
}

// wireBuffer is as much as one read brings.
const wireBuffer = 32 << 10

// mostBody bounds a message: an environment, or a list of all jobs.
const mostBody = 64 << 20

// mostBatch bounds how many messages are received before anything is done about them.
const mostBatch = 256

func newWire(socket io.Reader) *wire {
	return &wire{buffer: bufio.NewReaderSize(socket, wireBuffer)}
}

// receive waits for messages, and gives all that came at once. They are valid until the next call. With an error
// there may be some too, which came before it.
func (w *wire) receive() ([]message, error) {
	clear(w.batch) // not to hold outputs that were passed on
	w.batch = w.batch[:0]
	for {
		m, err := w.next()
		if err != nil {
			return w.batch, err
		}
		w.batch = append(w.batch, m)
		if len(w.batch) == mostBatch || !w.another() {
			return w.batch, nil
		}
	}
}

// another tells whether one more message has come already.
func (w *wire) another() bool {
	have := w.buffer.Buffered()
	if have < lengthBytes {
		return false
	}
	length, _ := w.buffer.Peek(lengthBytes) // it is there
	return uint32(have-lengthBytes) >= binary.LittleEndian.Uint32(length)
}

// next receives one message, with the output that follows it.
func (w *wire) next() (message, error) {
	m, err := w.header()
	if err != nil || m.Later {
		return m, err
	}
	for _, o := range []*journal.Output{&m.Done.Stdout, &m.Done.Stderr} {
		if _, err := io.ReadFull(w.buffer, o.Kept); err != nil {
			return message{}, fmt.Errorf("receive output: %w", err)
		}
	}
	return m, nil
}

func (w *wire) header() (message, error) {
	length, err := w.buffer.Peek(lengthBytes)
	if err != nil {
		return message{}, err
	}
	size := int(binary.LittleEndian.Uint32(length))
	if size > mostBody {
		return message{}, fmt.Errorf("receive message of %d bytes: %w", size, errMalformed)
	}
	if size <= wireBuffer-lengthBytes {
		frame, err := w.buffer.Peek(lengthBytes + size)
		if err != nil {
			return message{}, err
		}
		defer w.discard(lengthBytes + size)
		return w.decoder.decode(frame[lengthBytes:], math.MaxInt32)
	}
	return w.long(size)
}

// discard skips what was peeked at, which can't fail.
func (w *wire) discard(n int) { _, _ = w.buffer.Discard(n) }

// long receives a message that the buffer has no room for. Memory is taken as it comes.
func (w *wire) long(size int) (message, error) {
	w.discard(lengthBytes)
	w.body.Reset()
	if _, err := io.CopyN(&w.body, w.buffer, int64(size)); err != nil {
		return message{}, err
	}
	m, err := w.decoder.decode(w.body.Bytes(), math.MaxInt32)
	w.body = bytes.Buffer{} // there are few, and they are large
	return m, err
}
