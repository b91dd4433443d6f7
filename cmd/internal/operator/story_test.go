package operator

import (
	"testing"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
)

// What a row has of a job's output is shown only where it is all that the journal counted.
func TestARowShowsWhatItHasWhole(t *testing.T) {
	t.Parallel()
	text := func(size int64, tail string) api.JobText { return api.JobText{Size: size, Tail: tail} }
	for name, c := range map[string]struct {
		status         string
		stdout, stderr api.JobText
		wrote          [2]int64
		want           bool
	}{
		"both":                  {"done", text(2, "ab"), text(1, "c"), [2]int64{2, 1}, true},
		"nothing":               {"done", text(0, ""), text(0, ""), [2]int64{0, 0}, true},
		"its end alone":         {"done", text(5, "de"), text(0, ""), [2]int64{5, 0}, false},
		"other bytes":           {"done", text(3, "\uFFFD"), text(0, ""), [2]int64{1, 0}, false},
		"emptied":               {"done", text(0, ""), text(0, ""), [2]int64{0, 3}, false},
		"set back":              {"waiting", text(2, "ab"), text(0, ""), [2]int64{2, 0}, false},
		"a row that comes back": {"delayed", text(2, "ab"), text(0, ""), [2]int64{2, 0}, false},
	} {
		done := journal.Done{Stdout: journal.Output{Size: c.wrote[0]}, Stderr: journal.Output{Size: c.wrote[1]}}
		s := &Story{Row: &api.JobRow{Status: c.status, Stdout: c.stdout, Stderr: c.stderr}, Runs: []*Run{{Done: &done}}}
		if _, whole := s.Shown(); whole != c.want {
			t.Errorf("%s: %v", name, whole)
		}
	}
	if _, whole := (&Story{Row: &api.JobRow{Status: "done"}}).Shown(); whole {
		t.Error("nobody knows what it wrote")
	}
}

func TestRowsWait(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]api.WaitingTarget{
		"0 rows wait": {}, "1 row waits": {Count: 1}, "2,935 rows wait": {Count: 2935}, "1+ rows wait": {Count: 1, More: true},
	} {
		check.Equal(t, rowsWait(w), want)
	}
}

// A row that has ended is told with its signal, not with an owner of that name; one that was set by hand is nobody's.
func TestWhoseARowIs(t *testing.T) {
	t.Parallel()
	check.Equal(t, DescribeRow(history.Row{Status: "done", Target: "a", Owner: "SIGTERM", Signal: "SIGTERM", Result: "fail"}), "status=done target=a result=fail signal=SIGTERM")
	check.Equal(t, DescribeRow(history.Row{Status: "running", Target: "a", Owner: "@abcd12345"}), "status=running target=a owner=@abcd12345")
	c := &Cancelling{Failed: map[jobnet.Whole]string{}, left: []jobnet.Whole{1, 2}}
	c.giveUp(map[jobnet.Whole]api.ClaimedRow{1: {Status: "running"}, 2: {Status: "running", Owner: "@abcd12345"}})
	check.Equal(t, c.Failed[1], "its row is running, and bears no claim: no worker runs it")
	check.Equal(t, c.Failed[2], "its row is running, with the token @abcd12345, of a worker that was not asked")
}
