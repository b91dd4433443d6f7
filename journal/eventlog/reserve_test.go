package eventlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

func TestPitfall23TheReserve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := must.Get(OpenReserve(dir, 8<<20))(t)
	free := int64(100 << 20)
	r.free = func(string) (int64, int64, error) { return free, 1 << 40, nil }
	size := func() int64 {
		info := must.Get(os.Stat(filepath.Join(dir, reserveFile)))(t)
		return info.Size()
	}
	if err := r.Check(); err != nil || size() != 2<<20 {
		t.Fatalf("with room: %v, reserve of %d bytes", err, size())
	}
	free = 8<<20 - 1
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), ": only 7 MiB of its disk are free, and 8 MiB are needed") {
		t.Errorf("below the threshold: %v", err)
	}
	if since, err := r.Low(); err == nil || since.IsZero() {
		t.Errorf("since when is not told: %v, %v", since, err)
	} else if again, _ := r.Low(); again != since {
		t.Errorf("it is since %v, and then since %v", since, again)
	}
	r.Release()
	if n := size(); n != 0 {
		t.Errorf("after the release the reserve has %d bytes", n)
	}
	free = 9 << 20
	if err := r.Check(); err != nil || size() != 0 {
		t.Errorf("just above the threshold: %v, reserve of %d bytes, which there is no room for yet", err, size())
	}
	if since, err := r.Low(); err != nil || !since.IsZero() {
		t.Errorf("it is still told since %v: %v", since, err)
	}
	free = 20 << 20
	if err := r.Check(); err != nil || size() != 2<<20 {
		t.Errorf("with room again: %v, reserve of %d bytes", err, size())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestTheThresholdIsATenthOfASmallDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, total, err := freeSpace(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := must.Get(OpenReserve(dir, total))(t)
	if r.threshold != total/10 {
		t.Errorf("threshold %d on a disk of %d bytes", r.threshold, total)
	}
}
