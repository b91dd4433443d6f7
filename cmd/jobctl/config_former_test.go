package main

import (
	"path/filepath"
	"testing"
)

// Every configuration that was ever shipped is taken as it stands, and nothing is said of it.
func TestFormerConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/compat/configuration/jobctl-*.conf")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %q: %v", files, err)
	}
	d := startDaemon(t, "", map[string]any{"poll": "ok"})
	for _, file := range files {
		jobctl{}.expect(t, d, output{out: "ok\n"}, "poll", "--config", file)
	}
}
