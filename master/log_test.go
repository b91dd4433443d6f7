package master

import (
	"strings"
	"testing"

	"jobd/net/api"
)

// Peers don't fill the log: what they send is cut, a registration that says nothing new is not
// worth a line.
func TestPeersWriteLittleOfTheLog(t *testing.T) {
	t.Parallel()
	log := newLogged()
	address, _, _ := serveMaster(t, Config{Logger: log.logger()}, "")
	link := registered(t, address, strings.Repeat("n", 255), numbered(strings.Repeat("t", 200), 1000), nil)
	if line := log.await(t, "worker registered"); len(line) > 1500 || !strings.Contains(line, " and 995 more") {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	for range 8 {
		ask(t, link, "register-worker", api.Registration{Name: strings.Repeat("n", 255), Targets: numbered(strings.Repeat("t", 200), 1000)})
	}
	ask(t, link, "register-worker", api.Registration{Name: "other", Targets: []string{"a"}})
	log.await(t, "worker=other")
	log.mu.Lock()
	defer log.mu.Unlock()
	if lines := strings.Count(log.text.String(), "worker registered"); lines != 2 {
		t.Errorf("%d lines tell of registrations, want 2", lines)
	}
}

func TestListedNames(t *testing.T) {
	t.Parallel()
	if got := listed([]string{"a", "b"}).String(); got != "a, b" {
		t.Errorf("listed %s", got)
	}
}
