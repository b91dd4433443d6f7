package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"jobd/store/storetest/must"
)

// Every configuration that was ever shipped is taken as it stands, without a warning; so is what it
// shows behind a ; as an example.
func TestFormerConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/compat/configuration/jobd-master-*.conf")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %q: %v", files, err)
	}
	shownKey := regexp.MustCompile(`(?m)^; ([a-z_]+ = )`)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content := must.Get(os.ReadFile(file))(t)
			examples := shownKey.ReplaceAll(content, []byte("$1"))
			for _, text := range [][]byte{content, examples} {
				path := filepath.Join(t.TempDir(), "jobd-master.conf")
				must.Do(t, os.WriteFile(path, text, 0o600))
				c, err := parseConfig([]string{"--config", path}, nil, t.Output())
				if err != nil || len(c.Warnings) > 0 || c.Listen.Port != 7081 {
					t.Errorf("error %v, warnings %q, port %d, of\n%s", err, c.Warnings, c.Listen.Port, text)
				}
			}
		})
	}
}
