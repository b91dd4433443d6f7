package main

import "testing"

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
