package master

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/api"
)

// Peers don't fill the log: what they send is cut, a registration that says nothing new is not
// worth a line, and an address may write so many lines only.
func TestPeersWriteLittleOfTheLog(t *testing.T) {
	t.Parallel()
	log := newLogged()
	address, _, _ := serveMaster(t, Config{Logger: log.logger()}, "")
	link := registered(t, address, strings.Repeat("n", 255), numbered(strings.Repeat("t", 200), 1000), nil)
	if line := log.await(t, "worker registered"); len(line) > 1500 || !strings.Contains(line, " and 995 more") {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	for range registrationsAtOnce / 2 {
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

// Lines that are left out are counted, and told with the next one; another address is not
// concerned.
func TestLinesOfAnAddressAreLimited(t *testing.T) {
	t.Parallel()
	var c chatter
	now := time.Now()
	for range linesAtOnce {
		if may, _ := c.may("a", now); !may {
			t.Fatal("a line was left out too early")
		}
	}
	for range 3 {
		if may, _ := c.may("a", now); may {
			t.Error("too many lines")
		}
	}
	if may, _ := c.may("b", now); !may {
		t.Error("another address may not say anything")
	}
	if may, unsaid := c.may("a", now.Add(lineEvery)); !may || unsaid != 3 {
		t.Errorf("later: %v, and %d lines were left out", may, unsaid)
	}
	for i := range 3 * mostAddresses {
		c.may(fmt.Sprint(i), now)
	}
	if len(c.of) > mostAddresses {
		t.Errorf("%d addresses are remembered", len(c.of))
	}
}

// A worker that registers again and again does so in its own time.
func TestRegistrationsArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		link := b.join("w", nil, "a")
		begun := time.Now()
		for range registrationsAtOnce + 10 {
			ask(t, link, "register-worker", api.Registration{Name: "w", Targets: []string{"a"}})
		}
		if took := time.Since(begun); took != 10*registrationEvery {
			t.Errorf("took %v, want %v", took, 10*registrationEvery)
		}
	})
}

func TestListedNamesAreCut(t *testing.T) {
	t.Parallel()
	if got := listed([]string{"a", "b"}).String(); got != "a, b" {
		t.Errorf("listed %s", got)
	}
	if got := cut(strings.Repeat("ä", 100)); len(got) > textShown+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("cut to %s", got)
	}
}
