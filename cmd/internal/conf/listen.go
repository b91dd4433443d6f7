package conf

import (
	"net/netip"
	"strings"
)

// WarnOpen warns of a program that listens beyond its host and asks for no password: whoever reaches the port gives it orders. The
// keys are host and password.
func (s *Set) WarnOpen(host, password string) {
	if host == "" || password != "" || isLoopback(host) {
		return
	}
	s.Warn("host", "it listens beyond this host, and there is no password: everybody who reaches the port gives it orders; set password, or host = 127.0.0.1")
}

// isLoopback tells whether only this host can connect to an address.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
	}
	return address.Unmap().IsLoopback()
}
