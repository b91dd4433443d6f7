package wire

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// Seen with `go build`, which gives a program that is up to date the present time: each runner that a
// worker started was taken for one of another build, and replaced, for as long as the worker ran.
func TestATouchedProgramIsOfTheSameBuild(t *testing.T) {
	program := filepath.Join(t.TempDir(), "jobd")
	write := func(path string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte("program"), 0o700))
	}
	write(program)
	before := fileOf(program)
	must.Do(t, os.Chtimes(program, time.Unix(1, 0), time.Unix(1, 0)))
	if touched := fileOf(program); touched != before {
		t.Errorf("a touched program is %s, and was %s", touched, before)
	}
	write(program + ".new")
	must.Do(t, os.Rename(program+".new", program))
	if upgraded := fileOf(program); upgraded == before {
		t.Errorf("another program is %s, too", upgraded)
	}
}
