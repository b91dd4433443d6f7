package net

import (
	"bytes"
	"errors"
	"io"
)

// endOfFrame ends every frame. JSON text never holds it: inside strings it is escaped.
const endOfFrame = 0x04

// The read buffer of a link that has nothing to say is smallBuffer bytes; one that grew
// beyond keptBuffer for a long frame is given back afterwards.
const (
	smallBuffer = 512
	keptBuffer  = 4 << 10
)

// errFrameTooLong ends a link: the stream can't be read on from the middle of a frame.
var errFrameTooLong = errors.New("frame too long")

// splitter cuts the bytes of a connection into frames. The zero value is ready.
type splitter struct {
	buf        []byte
	start, end int // buf[start:end] was read and not handed out yet
	scanned    int // there is no endOfFrame in buf[start:scanned]
}

// next is the next whole frame without its end, or nil when more must be read first. The frame lies
// in the buffer: it is valid until the next call of fill. A frame, whole or begun, of more than
// limit bytes is errFrameTooLong.
func (s *splitter) next(limit int) ([]byte, error) {
	at := bytes.IndexByte(s.buf[s.scanned:s.end], endOfFrame)
	if at < 0 {
		s.scanned = s.end
		if s.end-s.start > limit {
			return nil, errFrameTooLong
		}
		return nil, nil
	}
	frame := s.buf[s.start : s.scanned+at : s.scanned+at]
	s.start = s.scanned + at + 1
	s.scanned = s.start
	if len(frame) > limit {
		return nil, errFrameTooLong
	}
	return frame, nil
}

// begun tells whether a frame has begun and not ended.
func (s *splitter) begun() bool { return s.end > s.start }

// pending is the frame that has begun, as far as it was read. It is valid until the next call of
// fill.
func (s *splitter) pending() []byte { return s.buf[s.start:s.end] }

// grown is how long the buffer is for the next fill.
func (s *splitter) grown() int {
	if len(s.buf) > 0 && s.end-s.start == len(s.buf) {
		return 2 * len(s.buf)
	}
	return len(s.buf)
}

// fill reads once. It must be called only after next had nothing more to give.
func (s *splitter) fill(r io.Reader) error {
	s.makeRoom()
	n, err := r.Read(s.buf[s.end:])
	s.end += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// shrink gives back a buffer that grew for a long frame which was handed out, and is not needed any
// more.
func (s *splitter) shrink() {
	rest, size := s.pending(), smallBuffer
	for size < len(rest) {
		size *= 2
	}
	if len(s.buf) <= keptBuffer || size >= len(s.buf) {
		return
	}
	s.buf = append(make([]byte, 0, size), rest...)[:size]
	s.scanned -= s.start
	s.start, s.end = 0, len(rest)
}

// makeRoom moves what is begun to the buffer's front, and doubles a full buffer.
func (s *splitter) makeRoom() {
	begun := s.buf[s.start:s.end]
	switch {
	case len(begun) == 0 && (s.buf == nil || len(s.buf) > keptBuffer):
		s.buf = make([]byte, smallBuffer)
	case len(begun) == len(s.buf):
		s.buf = append(make([]byte, 0, 2*len(s.buf)), begun...)
		s.buf = s.buf[:cap(s.buf)]
	case s.start > 0:
		copy(s.buf, begun)
	}
	s.scanned -= s.start
	s.start, s.end = 0, len(begun)
}
