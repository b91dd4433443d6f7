package packages

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// The pages are installed into one folder: what their links name is where they lead, in the package.
func TestLinksOfInstalledPages(t *testing.T) {
	t.Parallel()
	const doc = "usr/share/doc/jobd/"
	bodies := unpack(t, "amd64")
	folders := map[string]bool{}
	for name := range bodies {
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			folders[at] = true
		}
	}
	left := map[string]bool{"../packaging/man": true, "../testdata/journal/README.md": true, "LICENSE": true, "CHANGELOG.md": true} // of the checkout
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	pages, links := 0, 0
	for name, body := range bodies {
		if !strings.HasPrefix(name, doc) || path.Ext(name) != ".md" {
			continue
		}
		pages++
		for _, found := range link.FindAllStringSubmatch(string(body), -1) {
			links++
			if to := path.Join(path.Dir(name), found[1]); bodies[to] == nil && !folders[to] && !left[found[1]] {
				t.Errorf("/%s: %s is not in the package", name, found[1])
			}
		}
	}
	if pages < 40 || links < 200 {
		t.Errorf("%d pages with %d links were looked at", pages, links)
	}
}

// The drop-in that the unit speaks of is installed, where it says.
func TestDropInOfTheUnitIsInstalled(t *testing.T) {
	t.Parallel()
	bodies := unpack(t, "amd64")
	unit := string(bodies["usr/lib/systemd/system/jobd.service"])
	named := regexp.MustCompile(`(\S+\.conf) in (/\S+) opens`).FindStringSubmatch(unit)
	if named == nil {
		t.Fatalf("the unit names no drop-in:\n%s", unit)
	}
	if at := strings.TrimPrefix(path.Join(named[2], named[1]), "/"); len(bodies[at]) == 0 {
		t.Errorf("%s, which the unit names, is not in the package", at)
	}
}
