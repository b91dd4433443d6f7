package disorder

import (
	"encoding/json"
	"errors"
	"fmt"
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
	if !s.up(w) {
		return "", "", nil
	}
	return w.settings.Addr(), "run-manual", fields{"ids": ids}
}

// deaths is how often a daemon was killed or stopped.
func (s *site) deaths(via string) int {
	if via == "master" {
		return s.master.killed
	}
	return s.worker(via).killed
}

// checkClients tells what is wrong with the answers, once everything is well again.
func (s *site) checkClients(table map[int64]record) {
	late := time.After(settleTime)
	for _, c := range s.clients {
		select {
		case <-c.done:
			s.checkClient(c, table)
		case <-late:
			s.violated("client unanswered", "a client of %s got no answer for %v", c.via, describe(c.rows, table))
			return
		}
	}
}

func (s *site) checkClient(c *client, table map[int64]record) {
	var no refused
	switch {
	case errors.Is(c.err, errGone):
		if s.deaths(c.via) == c.began {
			s.violated("client unanswered", "%s closed a client's link, and was not ended meanwhile: %v", c.via, describe(c.rows, table))
		}
		return
	case errors.As(c.err, &no) && s.deaths(c.via) > c.began:
		return // it was stopping
	case errors.As(c.err, &no):
		s.violated("client told wrong", "a client of %s was refused as a whole: %s", c.via, no)
		return
	case c.err != nil:
		s.violated("client unanswered", "a client of %s: %v", c.via, c.err)
		return
	}
	for _, r := range c.rows {
		if wrong := s.wrongAnswer(c, r, table[r.id]); wrong != "" {
			s.violated("client told wrong", "a client of %s about job %d: %s; its row: %s", c.via, r.id, wrong, table[r.id])
		}
	}
}

// wrongAnswer compares what a client was told of a job with its row.
func (s *site) wrongAnswer(c *client, r *row, found record) string {
	if r.touched {
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
