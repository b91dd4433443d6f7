package page

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var meant = regexp.MustCompile(`name="meant" value="([^"]*)"`)

// An act is about the jobs that were shown, as they had ended then: not about those that have come since, and a
// form that is sent twice runs a job once.
func TestAnActIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	form := func(path string) url.Values {
		found := meant.FindStringSubmatch(see(t, s.at["worker"]+path))
		if found == nil {
			t.Fatalf("%s does not say which jobs are meant", path)
		}
		return url.Values{"meant": {html.UnescapeString(found[1])}}
	}
	send := func(path string, form url.Values) (code int) {
		code, _, _ = ask(t, "POST", s.at["worker"]+path, secret, form)
		return code
	}
	s.db.Insert(t, 1, "mail", "manual")
	const all = "/jobs/cancel?status=manual"
	shown := form(all)
	s.db.Insert(t, 2, "mail", "manual")
	if code := send(all, shown); code != http.StatusSeeOther {
		t.Errorf("cancel: %d", code)
	}
	s.db.AwaitStatus(t, 1, "ignored")
	s.db.AwaitStatus(t, 2, "manual")

	s.insert(t, "mail", 7)
	s.db.AwaitStatus(t, 7, "done")
	const retry = "/jobs/7/retry"
	shown = form(retry)
	shown.Set("meant", strings.ReplaceAll(shown.Get("meant"), "7-", "7-1")) // as of an end at another time
	if code := send(retry, shown); code != http.StatusConflict {
		t.Errorf("another end was meant: %d", code)
	}
	s.db.AwaitStatus(t, 7, "done")
	if code := send(retry, form(retry)); code != http.StatusSeeOther {
		t.Errorf("retry: %d", code)
	}
}
