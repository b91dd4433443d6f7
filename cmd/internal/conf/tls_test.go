package conf_test

import (
	"io"
	"strings"
	"testing"

	"jobd/cmd/internal/conf"
)

// What is said of TLS without TLS is a mistake, not a connection in clear text; and so is a half of a pair.
func TestHalfOfTheSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--tls=verify": "",
		"--tls=verify --tls-ca=ca --tls-cert=c --tls-key=k": "",
		"--tls=off --tls-ca=ca":                             "", // whoever turns it off for once need not take all of it back
		"--tls-ca=ca":                                       "tls_ca: there is no TLS without tls = verify",
		"--tls-name=master.example":                         "tls_name: there is no TLS without tls = verify",
		"--tls-cert=c --tls-key=k":                          "tls_key: there is no TLS without tls = verify",
		"--tls=verify --tls-key=k":                          "tls_cert: required for TLS",
		"--tls=verify --tls-cert=c":                         "tls_key: required for TLS",
	} {
		set := conf.New(conf.Program{})
		var trust conf.Trust
		trust.Register(set, "", "somebody", true, false)
		if err := set.Parse(strings.Fields(args), nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		trust.Validate(set, "")
		if err := set.Err(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Nor does a daemon offer TLS with a half of what it takes.
func TestHalfOfWhatADaemonOffers(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                           "",
		"--tls=off":                  "",
		"--tls-cert=c --tls-key=k":   "",
		"--tls-cert=c":               "tls_key: required for TLS",
		"--tls-key=k":                "tls_cert: required for TLS",
		"--tls=off --tls-cert=c":     "tls_key: required for TLS",
		"--tls=allow":                "tls_cert: required for tls = allow",
		"--tls=require":              "tls_cert: required for tls = require",
		"--tls-client-ca=ca":         "tls_cert: required for tls_client_ca",
		"--tls=require --tls-cert=c": "tls_key: required for TLS",
	} {
		set := conf.New(conf.Program{})
		var l conf.Listen
		l.Register(set)
		if err := set.Parse(strings.Fields("--listen-unix=/run/s "+args), nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		l.Validate(set)
		if err := set.Err(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
