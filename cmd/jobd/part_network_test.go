package main

import (
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// Masters know a worker that registers again by its journal's folder, however that is written.
func TestInstanceIsThatOfTheFolder(t *testing.T) {
	t.Parallel()
	mine, others := t.TempDir(), t.TempDir()
	first := must.Get(instance(mine))(t)
	again, _ := instance(filepath.Join(mine, "..", filepath.Base(mine)))
	other, _ := instance(others)
	if first != again || first == other || len(first) != 16 {
		t.Errorf("instances %q, again %q, of another folder %q", first, again, other)
	}
	if _, err := instance(filepath.Join(mine, "nowhere")); err == nil || !strings.Contains(err.Error(), "journal folder") {
		t.Errorf("error %v", err)
	}
}
