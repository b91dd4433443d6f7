package disorder

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"jobd/tests/harness"
)

// answerTime is how long any request but run-manual may take: 10 s, and the rest is for a busy machine.
const answerTime = 30 * time.Second

// errGone: there is nobody to ask, or the link ended before the answer.
var errGone = errors.New("nobody answers: the link ended")

// refused is what a daemon answered instead of data.
type refused string

func (r refused) Error() string { return string(r) }

// exchange sends one request on a link of its own and waits for its answer.
func exchange(addr, kind string, data any, patience time.Duration) (json.RawMessage, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, errGone
	}
	defer conn.Close()
	request, err := json.Marshal([]any{0, map[string]any{"no": 1, "type": kind, "data": data}})
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(append(request, harness.EOT)); err != nil {
		return nil, errGone
	}
	reader := bufio.NewReader(conn)
	for {
		frame, err := reader.ReadString(harness.EOT)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("no answer within %s", patience)
		case err != nil:
			return nil, errGone
		}
		var no int
		var response harness.Response
		parts := []any{&no, &response}
		if err := json.Unmarshal([]byte(strings.TrimSuffix(frame, string(rune(harness.EOT)))), &parts); err != nil {
			return nil, fmt.Errorf("the answer is %.200q: %w", frame, err)
		}
		if no != 1 || response.No != 1 {
			continue // a ping
		}
		if response.Error != "" {
			return nil, refused(response.Error)
		}
		return response.Data, nil
	}
}

// ask asks a daemon and tells whether it did what it was asked for.
func (s *site) ask(addr, kind string, data any) bool {
	begun := time.Now()
	_, err := exchange(addr, kind, data, answerTime)
	var no refused
	switch {
	case err == nil:
		s.Logf("%s %v: ok after %s", kind, data, time.Since(begun))
		return true
	case errors.Is(err, errGone) || errors.As(err, &no):
		s.Logf("%s %v: %v", kind, data, err)
	default:
		s.violated("request unanswered", "%s %v: %v", kind, data, err)
	}
	return false
}

// askWorker asks a worker that is up.
func (s *site) askWorker(w *worker, kind string, data any) bool {
	return s.up(w) && s.ask(w.settings.Addr(), kind, data)
}

// askMaster asks the master where it is up.
func (s *site) askMaster(kind string, data any) bool {
	if s.master.daemon == nil {
		return false
	}
	if !s.master.daemon.Running() {
		s.violated("master ended", "…%s", tail(s.master.daemon.Output(), 1500))
		s.master.daemon = nil
		return false
	}
	return s.ask(s.master.settings.Addr(), kind, data)
}
