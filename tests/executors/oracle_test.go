package executors

import (
	"fmt"
	"os"
	"strings"

	"jobd/tests/harness"
)

// entry is a line that a job has written.
type entry struct {
	word    string // start, said or end
	job     int64
	attempt int
	version string
	pid     int
}

// read reads what the jobs have written, in its order.
func (s *site) read() (entries []entry) {
	text, err := os.ReadFile(s.path("oracle"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		var e entry
		if _, err := fmt.Sscanf(line, "%s %d %d %s %d\n", &e.word, &e.job, &e.attempt, &e.version, &e.pid); err != nil {
			s.t.Errorf("the oracle says %q: %v", line, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// awaitStart waits until an attempt of a job has begun, and gives its process.
func (s *site) awaitStart(id int64, attempt int) (pid int) {
	s.t.Helper()
	return s.await("start", id, attempt)
}

// awaitSaid waits until it has written what it writes before it is struck.
func (s *site) awaitSaid(id int64, attempt int) (pid int) {
	s.t.Helper()
	return s.await("said", id, attempt)
}

func (s *site) await(word string, id int64, attempt int) (pid int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		for _, e := range s.read() {
			if e.word == word && e.job == id && e.attempt == attempt {
				pid = e.pid
				return ""
			}
		}
		return fmt.Sprintf("there is no %s of attempt %d of job %d: %s", word, attempt, id, s.Row(s.t, id))
	})
	return pid
}

// startedOnce checks that no attempt of any job was started twice.
func (s *site) startedOnce() {
	s.t.Helper()
	type start struct {
		job     int64
		attempt int
	}
	seen := map[start]entry{}
	for _, e := range s.read() {
		if e.word != "start" {
			continue
		}
		key := start{e.job, e.attempt}
		if before, is := seen[key]; is {
			s.t.Errorf("attempt %d of job %d was started twice, as process %d by version %s and as process %d by version %s",
				e.attempt, e.job, before.pid, before.version, e.pid, e.version)
		}
		seen[key] = e
	}
}

// most is how many jobs of each executor have run at the same time, of those that came to their
// end.
func (s *site) most() map[string]int {
	s.t.Helper()
	entries, ended := s.read(), map[int]bool{}
	for _, e := range entries {
		ended[e.pid] = ended[e.pid] || e.word == "end"
	}
	running, most := map[string]int{}, map[string]int{}
	for _, e := range entries {
		name := s.executors[e.job/ids-1].name
		switch {
		case e.word == "end":
			running[name]--
		case e.word == "start" && ended[e.pid]:
			running[name]++
		}
		most[name] = max(most[name], running[name])
	}
	return most
}
