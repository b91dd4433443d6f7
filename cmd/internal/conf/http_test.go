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
