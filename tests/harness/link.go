package harness

import (
	"strconv"
	"testing"

	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// Link is a way to a server that a test can break.
type Link struct{ *linkproxy.Proxy }

// NewLink passes connections on to an address until the test ends.
func NewLink(t testing.TB, addr string) Link {
	t.Helper()
	proxy := must.Get(linkproxy.Start(addr))(t)
	t.Cleanup(func() { must.Do(t, proxy.Close()) })
	return Link{proxy}
}

// ToDatabase leads a worker to its database over the link.
func (l Link) ToDatabase() Settings { return Settings{"mysql_port": strconv.Itoa(l.Port())} }

// Away cuts the link, and refuses new connections until Back.
func (l Link) Away() {
	l.Refuse(true)
	l.Cut()
}

// Back lets connections pass again.
func (l Link) Back() { l.Refuse(false) }
