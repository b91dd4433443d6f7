package page

import (
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// screens are the addresses that show something, and the scopes of those who may see it. A * is for those with all targets.
var screens = []struct{ path, scopes string }{
	{"/", "status read run admin"},
	{"/targets", "status read run admin"},
	{"/targets/mail", "status read run admin"},
	{"/workers", "status read run admin"},
	{"/workers/w1", "status read run admin"},
	{"/rates", "status read run admin"},
	{"/jobs", "read run admin"},
	{"/jobs?status=waiting", "read run admin"},
	{"/jobs?text=written", "read run admin"},
	{"/jobs/1", "read run admin"},
	{"/jobs/1/output/stdout", "read run admin"},
	{"/failed", "read run admin"},
	{"/failed?by=time", "read run admin"},
	{"/schedules", "read run admin"},
	{"/timeline", "read run admin"},
	{"/journal", "read run admin"},
	{"/journal/verify", "read* run* admin*"},
}

var (
	element = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)
	spaces  = regexp.MustCompile(`\s+`)
)

// text is what one reads of a page.
func text(body string) string {
	return html.UnescapeString(spaces.ReplaceAllString(element.ReplaceAllString(body, " "), " "))
}

// Everybody sees what their scope lets them see, and nothing of targets that are not theirs.
func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert(t, "mail", 1, 7, 1000)
	s.insert(t, foreign, 2, 17, 1001)
	s.db.Insert(t, 3, foreign, "manual")
	s.db.AwaitCount(t, 4, "status = 'done'")
	s.db.AwaitCount(t, 2, "status = 'running'")
	for daemon, at := range s.at {
		for who, token := range s.tokens {
			scope, targets, _ := strings.Cut(who, "-")
			for _, screen := range screens {
				allowed := strings.Fields(screen.scopes)
				may := slices.Contains(allowed, scope) || targets == "all" && slices.Contains(allowed, scope+"*")
				want := http.StatusForbidden
				if may {
					want = http.StatusOK
				}
				code, body, _ := ask(t, "GET", at+screen.path, token, nil)
				if code != want {
					t.Errorf("%s%s for %s: %d, not %d: %.300s", daemon, screen.path, who, code, want, text(body))
				}
				if targets == "mail" && (strings.Contains(body, foreign) || strings.Contains(body, "/jobs/17") || strings.Contains(body, "/jobs/1001")) {
					t.Errorf("%s%s tells %s of others' targets: %s", daemon, screen.path, who, text(body))
				}
			}
			if targets == "all" {
				continue
			}
			for path, never := range map[string]string{
				"/jobs/2": "word2", "/jobs/2/output/stdout": "word2", "/targets/" + foreign: "Slots", "/jobs?target=" + foreign: "/jobs/2", "/journal?job=2": "word2",
				"/jobs?target=" + foreign + "&status=manual": "/jobs/3", "/timeline?target=" + foreign: "/jobs/2", "/journal?target=" + foreign: "accepted by", "/failed?target=" + foreign: "/jobs/17",
			} {
				code, body, _ := ask(t, "GET", at+path, token, nil)
				if strings.Contains(body, never) || code >= 500 {
					t.Errorf("%s%s for %s: %d %s", daemon, path, who, code, text(body))
				}
			}
		}
		for path := range map[string]bool{"/": true, "/jobs/1": true, "/journal": true} {
			if code, body, _ := ask(t, "GET", at+path, "", nil); code != http.StatusOK && code != http.StatusUnauthorized || strings.Contains(body, foreign) {
				t.Errorf("%s%s for nobody: %d", daemon, path, code)
			}
		}
	}
	s.end(t, 1000)
	s.end(t, 1001)
}

// A master whose workers have yet to come has nothing to show, and says so.
func TestAMasterWithoutWorkers(t *testing.T) {
	t.Parallel()
	at := "127.0.0.1:" + harness.FreePort(t)
	harness.StartMaster(t, harness.Settings{"http_listen": at, "password": secret, "journal_dir": filepath.Join(t.TempDir(), "journal")})
	for _, screen := range screens {
		code, body, _ := ask(t, "GET", "http://"+at+screen.path, secret, nil)
		switch screen.path {
		case "/targets/mail", "/workers/w1":
			if code != http.StatusNotFound {
				t.Errorf("%s: %d %s", screen.path, code, text(body))
			}
		case "/jobs/1/output/stdout", "/journal/verify", "/rates":
			if code != http.StatusServiceUnavailable || !strings.Contains(body, "no worker is registered") {
				t.Errorf("%s: %d %s", screen.path, code, text(body))
			}
		default:
			if code != http.StatusOK {
				t.Errorf("%s: %d %s", screen.path, code, text(body))
			}
		}
	}
	if body := see(t, "http://"+at+"/journal"); !strings.Contains(body, "no worker is registered with the master") {
		t.Errorf("the journal of a master without workers: %s", text(body))
	}
}
