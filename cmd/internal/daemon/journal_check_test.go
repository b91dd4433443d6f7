package daemon

import (
	"testing"

	"jobd/cmd/internal/check"
)

// /proc and /sys may seem to take folders, and take none.
func TestCouldWriteNothingInTheKernelsFolders(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/proc/x", "/sys/x/y"} {
		if _, err := couldWrite(dir); err == nil {
			t.Errorf("%s could be made", dir)
		}
	}
	if _, err := couldWrite(t.TempDir() + "/below/journal"); err != nil {
		t.Error(err)
	}
}

// An empty folder, such as systemd makes, is a journal that nobody has begun.
func TestAnEmptyFolderIsNoFault(t *testing.T) {
	t.Parallel()
	found := (&Journal{}).history(t.Context(), "journal", t.TempDir())
	if len(found) != 1 || found[0].Level != check.OK || found[0].Ends {
		t.Errorf("found %+v", found)
	}
}
