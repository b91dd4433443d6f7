package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/check"
)

// A script of kept processes that is not there would be seen only when they are started: --check
// warns of it. What has no mode is looked at as ever.
func TestCheckWarnsOfAScriptThatIsNotThere(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "jobs.php")
	found := func(settings string) check.Finding {
		t.Helper()
		c, err := fromFile(t, settings, "--targets.a=1", "--launcher=/bin/sh "+script+" -x")
		if err != nil {
			t.Fatal(err)
		}
		return c.findLaunchers(t.Context(), false)[0]
	}
	if f := found("launcher_mode = pool\n"); f.Level != check.Warning || !strings.Contains(f.Detail, "there is no file "+script) || f.Remedy == "" || f.Ends {
		t.Errorf("a pool without its script: %+v", f)
	}
	if f := found(""); f.Level != check.OK || f.Remedy != "" {
		t.Errorf("a process without its script: %+v", f)
	}
	if err := os.WriteFile(script, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := found("launcher_mode = pool\n"); f.Level != check.OK || f.Remedy != "" {
		t.Errorf("a pool with its script: %+v", f)
	}
}
