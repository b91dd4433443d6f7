package disorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"jobd/tests/harness"
)

// client is somebody who asked for manual rows to be run, and waits.
type client struct {
	via    string // the daemon
	rows   []*row
	began  int // how often the daemon had been killed by then
	done   chan struct{}
	answer harness.Jobs // once done is closed
	err    error        // errGone: the link ended
}

// clientTime is how long a client waits, in whatever state the site is.
const clientTime = 3 * time.Minute

// runManual inserts manual rows and has a client ask for them.
func (s *site) runManual(via, target string, n int, tempo string) {
	c := &client{via: via, rows: s.insert(target, n, tempo, manual), done: make(chan struct{})}
	addr, kind, data := s.request(via, c.rows)
	if addr == "" {
		return
	}
	c.began = s.deaths(via)
	s.clients = append(s.clients, c)
	go func() {
		defer close(c.done)
		var text json.RawMessage
		if text, c.err = exchange(addr, kind, data, clientTime); c.err == nil {
			c.err = json.Unmarshal(text, &c.answer)
		}
		s.Logf("client of %s for %v: %+v %v", via, data, c.answer, c.err)
	}()
}

// request is a run-manual as a worker or the master takes it; no address where it does not run.
func (s *site) request(via string, rows []*row) (addr, kind string, data any) {
	if via == "master" {
		jobs := []fields{}
		for _, r := range rows {
			jobs = append(jobs, fields{"id": r.id, "target": r.target})
		}
		if s.master.daemon == nil {
			return "", "", nil
		}
		return s.master.settings.Addr(), "run-manual", fields{"jobs": jobs}
	}
	ids := []int64{}
	for _, r := range rows {
		ids = append(ids, r.id)
	}
	w := s.worker(via)
	if !s.up(w) || !listens(w.settings.Addr()) {
		return "", "", nil
	}
	return w.settings.Addr(), "run-manual", fields{"ids": ids}
}

// listens reports whether a daemon that was started has come so far that clients can reach it.
func listens(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// deaths is how often a daemon was killed or stopped.
func (s *site) deaths(via string) int {
	if via == "master" {
		return s.master.killed
	}
	return s.worker(via).killed
}

// awaitClients waits until all clients are answered, once everything is well again.
func (s *site) awaitClients() {
	left := s.settle(func(table map[int64]record) string {
		for _, c := range s.clients {
			select {
			case <-c.done:
			default:
				return fmt.Sprintf("a client of %s that waits for %s", c.via, describe(c.rows, table))
			}
		}
		return ""
	})
	if left != "" {
		s.violated("client unanswered", "for %s nothing happened to %s", settleTime, left)
	}
}

// checkClients compares what clients were told with the rows; a row may come after the answer.
func (s *site) checkClients() {
	wrong := ""
	var about *client
	within(stopTime, func() bool {
		table := s.readTable()
		for _, about = range s.clients {
			if wrong = s.wrongAnswers(about, table); wrong != "" {
				return false
			}
		}
		return true
	})
	if wrong != "" {
		s.violated("client told wrong", "a client of %s: %s", about.via, wrong)
	}
}

// wrongAnswers tells what is wrong with what a client was told.
func (s *site) wrongAnswers(c *client, table map[int64]record) string {
	var no refused
	switch ended := s.deaths(c.via) > c.began; {
	case errors.Is(c.err, errGone) || errors.As(c.err, &no):
		if ended {
			return "" // it was killed, or was stopping
		}
		return fmt.Sprintf("%v, though the daemon was there all the time: %s", c.err, describe(c.rows, table))
	case c.err != nil:
		return c.err.Error()
	}
	for _, r := range c.rows {
		if wrong := s.wrongAnswer(c, r, table[r.id]); wrong != "" {
			return fmt.Sprintf("job %d: %s; its row: %s", r.id, wrong, table[r.id])
		}
	}
	return ""
}

// wrongAnswer compares what a client was told of a job with its row.
func (s *site) wrongAnswer(c *client, r *row, found record) string {
	if r.touched || r.cancelled {
		return ""
	}
	key := fmt.Sprint(r.id)
	job, ran := c.answer.Jobs[key]
	problem, failed := c.answer.Errors[key]
	switch {
	case ran == failed:
		return "told neither an outcome nor a reason, or both"
	case ran && (found.status != "done" || found.result != job.Result || found.code != codeText(job.Code)):
		return fmt.Sprintf("told %s", job)
	case failed && strings.Contains(problem, fmt.Sprintf("job %d not found", r.id)):
		return "told that there is none"
	case found.status == "ignored":
		return fmt.Sprintf("its row was changed, and it was told: %s", problem)
	case failed && strings.Contains(problem, "database") && !s.disturbed:
		return fmt.Sprintf("told of the database, which was there all the time: %s", problem)
	}
	return ""
}

func codeText(code *int) string {
	if code == nil {
		return "NULL"
	}
	return fmt.Sprint(*code)
}

func describe(rows []*row, table map[int64]record) string {
	var text []string
	for _, r := range rows {
		text = append(text, fmt.Sprintf("%d %s", r.id, table[r.id]))
	}
	return strings.Join(text, ", ")
}
