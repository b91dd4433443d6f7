package conf

import (
	"reflect"
	"strings"
	"testing"
)

// An address names its host, so that nobody listens on all addresses by leaving something out.
func TestHTTPAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]HTTP{
		"":                   {},
		"127.0.0.1:9180":     {Network: "tcp", Address: "127.0.0.1:9180"},
		"localhost:0":        {Network: "tcp", Address: "localhost:0"},
		"[::1]:9180":         {Network: "tcp", Address: "[::1]:9180"},
		"0.0.0.0:80":         {Network: "tcp", Address: "0.0.0.0:80"},
		"/run/jobd/web.sock": {Network: "unix", Address: "/run/jobd/web.sock"},
	} {
		var got HTTP
		if err := got.decode(text); err != nil || !reflect.DeepEqual(got, want) || got.On() != (text != "") {
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
	for text, test := range map[string]struct {
		host string
		port int
		same bool
	}{
		"127.0.0.1:9180":     {"127.0.0.1", 9180, true},
		"[::]:9180":          {"::", 9180, true},
		"node-1:9180":        {"node-1", 9180, true},
		"127.0.0.1:9181":     {"127.0.0.1", 9180, false},
		"127.0.0.2:9180":     {"127.0.0.1", 9180, false},
		"127.0.0.1:0":        {"127.0.0.1", 0, false},
		"/run/jobd/web.sock": {"127.0.0.1", 9180, false},
	} {
		var h HTTP
		set := New(Program{})
		h.Register(set)
		if err := h.decode(text); err != nil {
			t.Fatal(err)
		}
		h.Validate(set, &Listen{Host: test.host, Port: test.port})
		if same := set.Err() != nil; same != test.same {
			t.Errorf("http_listen %s, host %s: %v", text, test.host, set.Err())
		}
	}
}
