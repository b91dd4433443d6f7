package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// Every configuration that was ever shipped is taken as it stands, without a warning; so is what it
// shows behind a ; as an example.
func TestFormerConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/compat/configuration/jobd-[0-9]*.conf")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %q: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			shipped := installed(t, file)
			c := mustParse(t, []string{"--config", shipped}, nil)
			if len(c.Warnings) > 0 || c.targets["default"] != 4 || c.store.mysql.Database != "site" {
				t.Errorf("warnings %q, targets %v, database %q", c.Warnings, c.targets, c.store.mysql.Database)
			}
			content := must.Get(os.ReadFile(shipped))(t)
			must.Do(t, os.WriteFile(shipped, []byte(withExamples(string(content))), 0o600))
			c = mustParse(t, []string{"--config", shipped}, nil)
			if len(c.Warnings) > 0 || c.targets["video/convert"] != 1 || c.store.mysql.ClaimColumn != "sig" {
				t.Errorf("with its examples: warnings %q, targets %v, claim_column %q", c.Warnings, c.targets, c.store.mysql.ClaimColumn)
			}
		})
	}
}

var shownKey = regexp.MustCompile(`(?m)^; (\[target |[a-z_./]+(\.env\.[A-Z_]+)? = )`)

// withExamples has the keys that a shipped configuration shows behind a ;, but for those of another
// store, folders that are not here, and a name with a quote that does not end.
func withExamples(content string) string {
	content = shownKey.ReplaceAllString(content, "$1")
	for _, own := range []string{
		"store = sqlite", "sqlite_path", "name = the", "launcher.cwd = /srv", "journal_archive_dir", "log_file",
	} {
		content = strings.ReplaceAll(content, "\n"+own, "\n; "+own)
	}
	return content
}
