package conf

import (
	"strings"
	"testing"
)

// An address names its host, so that nobody listens on all addresses by leaving something out.
func TestHTTPAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]HTTP{
		"":                   {},
		"127.0.0.1:9180":     {"tcp", "127.0.0.1:9180"},
		"localhost:0":        {"tcp", "localhost:0"},
		"[::1]:9180":         {"tcp", "[::1]:9180"},
		"0.0.0.0:80":         {"tcp", "0.0.0.0:80"},
		"/run/jobd/web.sock": {"unix", "/run/jobd/web.sock"},
	} {
		var got HTTP
		if err := got.decode(text); err != nil || got != want || got.On() != (text != "") {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		":9180", "9180", "*:9180", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "::1:9180x", "web.sock",
		"http://127.0.0.1:9180", "127.0.0.1:9180/metrics", "a b:1", "/" + strings.Repeat("x", longestSocket),
	} {
		var got HTTP
		if err := got.decode(text); err != errHTTP || got.On() {
			t.Errorf("%q was taken: %+v, %v", text, got, err)
		}
	}
}

// Where the daemon itself listens there is no room for another listener.
func TestHTTPBesideTheDaemonsOwnAddress(t *testing.T) {
	t.Parallel()
	for text, hosts := range map[string][2][]string{ // where the daemon may not listen, and where it may
		"127.0.0.1:9180":     {{"127.0.0.1", "localhost", "LOCALHOST.", "0.0.0.0", "::", "[::]", "::ffff:127.0.0.1"}, {"127.0.0.2", "::1", "node-1"}},
		"0.0.0.0:9180":       {{"127.0.0.1", "10.0.0.1", "::"}, {"::1", "[::1]", "node-1"}},
		"[::]:9180":          {{"::1", "127.0.0.1", "0.0.0.0"}, {"node-1"}},
		"node-1:9180":        {{"node-1", "Node-1"}, {"node-2", "127.0.0.1"}},
		"127.0.0.1:9181":     {nil, {"127.0.0.1", "::"}},
		"/run/jobd/web.sock": {nil, {"127.0.0.1"}},
	} {
		var h HTTP
		if err := h.decode(text); err != nil {
			t.Fatal(err)
		}
		for i, list := range hosts {
			for _, host := range list {
				if got := h.takes(&Listen{Host: host, Port: 9180}); got != (i == 0) {
					t.Errorf("http_listen %s, host %s: %v", text, host, got)
				}
			}
		}
	}
	free := HTTP{"tcp", "127.0.0.1:0"}
	if free.takes(&Listen{Host: "127.0.0.1"}) {
		t.Error("any port is the same as any port")
	}
}
