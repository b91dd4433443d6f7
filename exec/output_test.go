package exec_test

import (
	"errors"
	"reflect"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

func TestOutputOfAJobUnderWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.runner.written = jobexec.Written{{At: 3, Bytes: []byte("lo"), Size: 5}}
	f.start()
	p := f.next()
	f.wait("it runs", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusRunning })
	glance := jobexec.Glance{Job: 1, From: [2]int64{3, 0}, Most: 10}
	got, found, err := f.worker.Output(t.Context(), glance)
	want := jobexec.JobOutput{Attempt: 1, Started: true, Written: f.runner.written}
	if err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %t, %v; want %+v", got, found, err, want)
	}
	asked := glance
	asked.Token, asked.Attempt = p.spec.Token, 1
	if !reflect.DeepEqual(f.runner.glances, []jobexec.Glance{asked}) {
		t.Errorf("the runner was asked for %+v, want %+v", f.runner.glances, asked)
	}
	f.claimed(2)
	if got, found, err := f.worker.Output(t.Context(), jobexec.Glance{Job: 2}); err != nil || !found || got.Started {
		t.Errorf("of one that waits: %+v, %t, %v", got, found, err)
	}
	for _, none := range []jobexec.Glance{{Job: 3}, {Job: 1, Attempt: 2}} {
		if got, found, err := f.worker.Output(t.Context(), none); found || err != nil {
			t.Errorf("%+v: %+v, %v", none, got, err)
		}
	}
	f.runner.mu.Lock()
	f.runner.silent = errors.New("it stands still")
	f.runner.mu.Unlock()
	if _, found, err := f.worker.Output(t.Context(), glance); !found || !errors.Is(err, f.runner.silent) {
		t.Errorf("of a runner that stands still: %t, %v", found, err)
	}
}

func TestAPartOfWhatWasKept(t *testing.T) {
	t.Parallel()
	output := journal.Output{Kept: []byte("01234"), Size: 9}
	for _, test := range []struct {
		from int64
		most int
		want jobexec.Part
	}{
		{0, 9, jobexec.Part{At: 0, Bytes: []byte("01234"), Size: 9}},
		{3, 1, jobexec.Part{At: 3, Bytes: []byte("3"), Size: 9}},
		{-2, 9, jobexec.Part{At: 3, Bytes: []byte("34"), Size: 9}},
		{-99, 2, jobexec.Part{At: 0, Bytes: []byte("01"), Size: 9}},
		{5, 9, jobexec.Part{At: 9, Size: 9}},
		{99, 9, jobexec.Part{At: 9, Size: 9}},
	} {
		if got := jobexec.PartOf(output, test.from, test.most); !reflect.DeepEqual(got, test.want) {
			t.Errorf("from %d, %d bytes: %+v, want %+v", test.from, test.most, got, test.want)
		}
	}
}
