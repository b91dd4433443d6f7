package conf_test

import (
	"testing"

	"jobd/cmd/internal/conf"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ host, want string }{
		"all, IPv6":      {"::", "[::]:7081"},
		"with brackets":  {"[::1]", "[::1]:7081"},
		"name":           {"localhost", "localhost:7081"},
		"IPv4 of a host": {"10.0.0.1", "10.0.0.1:7081"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (&conf.Listen{Host: test.host, Port: 7081}).Address(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
