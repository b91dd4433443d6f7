package operator

import (
	"testing"

	"jobd/journal"
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
