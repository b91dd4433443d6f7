package conf_test

import (
	"io"
	"strings"
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

// A daemon listens somewhere: at host and port, on a socket, or both.
func TestListenUnix(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--listen-unix=/run/s":                     "",
		"--listen-unix=/run/s --host=::1 --port=1": "",
		"":                                "host: required; give it as --host or as HOST\nport: required",
		"--listen-unix=":                  "host: required",
		"--listen-unix=/run/s --port=1":   "host: required",
		"--listen-unix=/run/s --host=::1": "port: required",
		"--listen-unix=s":                 "the absolute path of a unix socket, of at most 107 bytes",
		"--listen-unix=/" + strings.Repeat("x", 107):  "the absolute path of a unix socket, of at most 107 bytes",
		"--listen-unix=/" + strings.Repeat("x", 106):  "",
		"--listen-unix=/run/s --http-listen=/run/s":   "http_listen: listen_unix is the same",
		"--listen-unix=/run/s --http-listen=/run/s.2": "",
	} {
		set := conf.New(conf.Program{})
		var l conf.Listen
		var h conf.HTTP
		l.Register(set)
		h.Register(set)
		if err := set.Parse(strings.Fields(args), nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		l.Validate(set)
		h.Validate(set, &l)
		if err := set.Err(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
