package operator

import (
	"os"
	"path/filepath"
	"testing"

	"jobd/store/storetest/must"
)

// fill leaves so little room on a small disk that the worker takes it for full.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	ballast := filepath.Join(dir, "ballast")
	must.Do(t, os.WriteFile(ballast, make([]byte, 60<<20), 0o600))
	return func() {
		must.Do(t, os.Remove(ballast))
	}
}
