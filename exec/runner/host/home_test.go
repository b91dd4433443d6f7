package host

import (
	"os"
	"path/filepath"
	"testing"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/must"
)

// Not parallel: it is about the working folder.
func TestARunnerThatNobodyCanReach(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, dir string) error
		want   bool
	}{
		{"nothing happened", func(*testing.T, string) error { return nil }, true},
		{"the socket is gone", func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, wire.SocketFile)) }, false},
		{"another socket took its place", func(_ *testing.T, dir string) error {
			other := filepath.Join(dir, "other")
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				return err
			}
			return os.Rename(other, filepath.Join(dir, wire.SocketFile))
		}, false},
		{"the folder was renamed", func(_ *testing.T, dir string) error { return os.Rename(dir, dir+".new") }, true},
		{"the folder is gone", func(_ *testing.T, dir string) error { return os.RemoveAll(dir) }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			must.Do(t, os.Mkdir(dir, 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, wire.SocketFile), nil, 0o600))
			t.Chdir(dir)
			socket := must.Get(os.Stat(wire.SocketFile))(t)
			must.Do(t, test.change(t, dir))
			if got := reachable(socket); got != test.want {
				t.Errorf("reachable: %t, want %t", got, test.want)
			}
		})
	}
}

func TestAnAbandonedRunnerWaitsForItsJobs(t *testing.T) {
	t.Parallel()
	known := newJobs("this", newTestSpool(t))
	s := &server{jobs: known} // its home was never there
	j := known.add(wire.ID{Job: 1, Attempt: 1}, spec{})
	if s.abandoned() {
		t.Error("a runner ends while a job runs")
	}
	j.ended = true
	if !s.abandoned() {
		t.Error("a runner waits for ever for a worker that can't come")
	}
}
