package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

// Stream is an answer that goes on for as long as there is news. Its context ends with the request, with the
// session of who asks, and with the server.
type Stream struct {
	context.Context
	cancel  context.CancelFunc
	stop    func() bool
	w       http.ResponseWriter
	control *http.ResponseController
}

// errStreams is why somebody gets no stream.
var errStreams = errors.New("too many pages are open: close some, or load the page again")

// OpenStream makes a stream of a page's answer, which has its header by then. There is room for some only, beside
// all other answers. The caller must close it.
func OpenStream(w http.ResponseWriter, r *http.Request) (*Stream, error) {
	conn := connOf(r)
	if conn.bound == nil || !conn.bound.stream(conn.Conn, SessionOf(r.Context()).Name) {
		return nil, errStreams
	}
	s := &Stream{w: w, control: http.NewResponseController(w)}
	s.Context, s.cancel = context.WithCancel(r.Context())
	s.stop = context.AfterFunc(conn.bound.ending, s.cancel)
	w.Header().Set("Connection", "close") // it has a place of its own, and goes back to no other
	return s, nil
}

// mostAtOnce is how many bytes a reader must take in the time of an answer.
const mostAtOnce = 64 << 10

// Write sends what it is given at once. A reader that takes nothing for a while has hung up.
func (s *Stream) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, mostAtOnce) {
		if err := s.Err(); err != nil {
			return n, err
		}
		_ = s.control.SetWriteDeadline(time.Now().Add(answerTimeout))
		written, err := s.w.Write(piece)
		if n += written; err == nil {
			err = s.control.Flush()
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close ends the stream; the answer ends when its handler returns.
func (s *Stream) Close() {
	s.stop()
	s.cancel()
}
