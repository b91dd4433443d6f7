package torture

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"jobd/tests/harness"
)

// link is the way to the database, which can be made bad.
type link struct{ *toxiproxy.Proxy }

func newLink(t *testing.T, s *site) link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := link{toxiproxy.NewProxy(server, s.Name, net.JoinHostPort("127.0.0.1", harness.FreePort(t)), s.Addr)}
	l.up(t)
	t.Cleanup(l.Stop)
	return l
}

// settings lead a worker over the link.
func (l link) settings() harness.Settings {
	_, port, err := net.SplitHostPort(l.Listen)
	if err != nil {
		panic(err) // the proxy's own address
	}
	return harness.Settings{"mysql_port": port}
}

// up lets connections pass, again where Stop has cut them. On a busy machine the proxy may be closing its
// address still.
func (l link) up(t *testing.T) {
	t.Helper()
	var err error
	if !await(func() bool { err = l.Start(); return !errors.Is(err, syscall.EADDRINUSE) }) || err != nil {
		t.Fatalf("start the link: %v", err)
	}
}

// poison makes the link bad in both directions; heal ends it.
func (l link) poison(t *testing.T, kind, attributes string) {
	t.Helper()
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"name": "%s %s", "type": %q, "stream": %[2]q, "attributes": {%[4]s}}`, kind, direction, kind, attributes)
		if _, err := l.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatalf("poison the link with %s: %v", toxic, err)
		}
	}
}

func (l link) heal(t *testing.T) {
	l.Toxics.ResetToxics(t.Context())
}
