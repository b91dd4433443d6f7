package documents

import (
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func docs(parts ...string) string {
	return filepath.Join(append([]string{harness.Top(), "docs"}, parts...)...)
}

// What is drawn today from docs/diagrams is what stands in docs.
func TestPicturesAreDrawnFromTheirSources(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob(docs("diagrams", "*.dot"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("docs/diagrams has no source (%v)", err)
	}
	fresh := t.TempDir()
	if output, err := exec.Command(filepath.Join(harness.Top(), "tools", "diagrams.sh"), fresh).CombinedOutput(); err != nil {
		t.Fatalf("tools/diagrams.sh: %v: %s", err, output)
	}
	pages := allPages(t)
	for _, source := range sources {
		picture := strings.TrimSuffix(filepath.Base(source), ".dot") + ".svg"
		kept := read(t, docs(picture))
		if digest := fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, source)))); !strings.Contains(kept, digest) {
			t.Errorf("docs/%s was drawn from another %s: run make diagrams", picture, filepath.Base(source))
		}
		if diff := cmp.Diff(unplaced(kept), unplaced(read(t, filepath.Join(fresh, picture)))); diff != "" {
			t.Errorf("docs/%s is another picture (-there +drawn): run make diagrams\n%s", picture, diff)
		}
		shown := false
		for _, text := range pages {
			shown = shown || strings.Contains(text, picture+")")
		}
		if !shown {
			t.Errorf("no page shows docs/%s", picture)
		}
	}
}

// place is an attribute that says where something is: that depends on the fonts of a machine.
var place = regexp.MustCompile(` (x|y|cx|cy|rx|ry|points|d|width|height|viewBox|transform|textLength)="[^"]*"`)

func unplaced(picture string) string { return place.ReplaceAllString(picture, "") }

// A browser shows nothing of an SVG that is no XML.
func TestPicturesAreXML(t *testing.T) {
	t.Parallel()
	pictures, err := filepath.Glob(docs("*.svg"))
	if err != nil || len(pictures) == 0 {
		t.Fatalf("docs has no picture (%v)", err)
	}
	for _, picture := range pictures {
		decoder := xml.NewDecoder(strings.NewReader(read(t, picture)))
		for err = nil; err == nil; {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", picture, err)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	return string(content)
}
