package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// retried is what a worker answered to retry.
type retried struct {
	Jobs   map[string]string `json:"jobs"`
	Errors map[string]string `json:"errors"`
}

// retry asks a worker to set rows back, whatever becomes of the worker meanwhile.
func retry(addr string, ids ...int) (answer retried, err error) {
	conn, err := net.DialTimeout("tcp", addr, harness.Patience)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	data, _ := json.Marshal(map[string]any{"ids": ids})
	if _, err := fmt.Fprintf(conn, "[0,{\"no\":1,\"type\":\"retry\",\"data\":%s}]\x04", data); err != nil {
		return answer, err
	}
	frame, err := bufio.NewReader(conn).ReadBytes(harness.EOT)
	if err != nil {
		return answer, err
	}
	var kind int
	var response harness.Response
	if err := json.Unmarshal(frame[:len(frame)-1], &[]any{&kind, &response}); err != nil {
		return answer, err
	}
	if response.Error != "" {
		return answer, errors.New(response.Error)
	}
	return answer, json.Unmarshal(response.Data, &answer)
}

// setBack counts for each job the ends that the journals say were set back, and were indeed. Two
// workers may say so of one end: the first was killed before its transaction was committed, the
// second set the row back right then, and of a row that waits nobody can tell who made it wait. Each
// end has a time of its own, since a row is set back in a later second than it ended in.
func setBack(t *testing.T, journals []string) map[int]int {
	t.Helper()
	ends := map[int]map[int64]bool{}
	for _, dir := range journals {
		for job, retried := range retriedBy(t, dir) {
			if ends[job] == nil {
				ends[job] = map[int64]bool{}
			}
			for _, finished := range retried {
				ends[job][finished] = true
			}
		}
	}
	counts := map[int]int{}
	for job, all := range ends {
		counts[job] = len(all)
	}
	return counts
}

// retriedBy gives for each job the ends that one journal says were set back, by their times.
func retriedBy(t *testing.T, dir string) map[int][]int64 {
	t.Helper()
	reader := must.Get(replay.Open(dir))(t)
	ends := map[int][]int64{}
	kinds := []journal.Kind{journal.KindRetried, journal.KindConflict}
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: kinds}) {
		if err != nil {
			t.Fatal(err)
		}
		job := int(e.Job)
		switch p := e.Payload.(type) {
		case journal.Retried:
			ends[job] = append(ends[job], p.Finished)
		case journal.Conflict:
			switch p.Wanted {
			case journal.WantedRetried: // the newest
				ends[job] = ends[job][:len(ends[job])-1]
			case journal.RowDone: // told once more after a kill, when another worker had run it again
			default:
				t.Errorf("job %d: a conflict: %+v", e.Job, p)
			}
		}
	}
	return ends
}

// auditRetried checks that each job was started once, and once more for each time that its row was
// set back, and never more; that its row tells how it ended; and that the journals verify. No runner
// was killed.
func (s *site) auditRetried(t *testing.T, journals ...string) (found tally, retries int) {
	t.Helper()
	seen, back := s.oracle.read(t), setBack(t, journals)
	found.jobs = s.jobs
	outcomes := s.outcomes(t)
	must.Equal(t, len(outcomes), s.jobs, "the table has … rows, and had")
	for _, o := range outcomes {
		starts := len(seen.starts[attempt{o.id, 1}]) + len(seen.starts[attempt{o.id, 2}])
		retries += back[o.id]
		switch want := 1 + back[o.id]; {
		case o.status != "done":
			found.lost++
			t.Errorf("job %d is %s at the end", o.id, o.status)
		case o.wrong() != "":
			t.Errorf("job %d: %s", o.id, o.wrong())
		case starts > want:
			found.doubled++
			t.Errorf("job %d was started %d times, and was set back %d times", o.id, starts, back[o.id])
		case starts < want:
			found.lost++
			t.Errorf("job %d was started %d times only, and was set back %d times", o.id, starts, back[o.id])
		}
	}
	for _, dir := range journals {
		checkJournal(t, dir, seen)
	}
	return found, retries
}

// settled waits until no worker is in doubt of anything.
func settled(t *testing.T, workers []*harness.Daemon) {
	t.Helper()
	for _, w := range workers {
		client := harness.Dial(t, w.Addr)
		if !await(func() bool {
			var status struct {
				Doubts int `json:"claimsInDoubt"`
			}
			client.Ask(t, "status", nil).Decode(t, &status)
			return status.Doubts == 0
		}) {
			t.Errorf("%s is in doubt for ever", w.Addr)
		}
	}
}

// The worker is killed at each step of a retry. What was committed is run, once; what was not is as
// it was, and the journal says so; and it can be retried.
func TestKilledAtEachStepOfARetry(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"retry-selected", "retried-appended", "retry-sent", "retry-answered"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			harness.Armed(t)
			s := newSite(t, "", map[string]int{"a": 4}, harness.Settings{"poll_interval": "0"})
			s.insert(t, 8, "a")
			worker, _ := s.start(t)
			s.awaitDone(t)
			runs := size(3, 60)
			for range runs {
				worker.Kill(t)
				harness.Arm(t, s.settings["journal_dir"], point, 1)
				armedWorker := s.launch(t, armed).Ready(t)
				if answer, err := retry(armedWorker.Addr, 1, 2, 3, 4); err == nil {
					t.Errorf("it was not killed: %v", answer)
				}
				if armedWorker.ExitCode(t) != -1 {
					t.Fatalf("it ended by itself:\n%s", armedWorker.Output())
				}
				harness.Disarm(t, s.settings["journal_dir"])
				worker, _ = s.start(t)
				settled(t, []*harness.Daemon{worker})
				s.awaitDone(t)
				answer, err := retry(worker.Addr, 3, 4, 5)
				if err != nil || len(answer.Jobs) != 3 {
					t.Errorf("a retry afterwards: %v, %v", answer, err)
				}
				s.awaitDone(t)
			}
			found, retries := s.auditRetried(t, s.settings["journal_dir"])
			// Rows that ended in different seconds are set back in several transactions.
			if point == "retry-answered" && retries <= runs*3 || (point == "retry-selected" || point == "retried-appended") && retries != runs*3 {
				t.Errorf("%d rows were set back, in %d runs", retries, runs)
			}
			suite.matrix.add(line{fault: "1 killed at " + point, runs: runs, tally: found})
		})
	}
}
