package conf

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"jobd/net/cert"
)

// The words of the keys about TLS.
const (
	off       = "off"
	allow     = "allow"
	require   = "require"
	verify    = "verify"
	preferred = "preferred"
)

// TLS says how a daemon offers TLS on its port. Both daemons have these keys.
type TLS struct {
	mode  string // off, allow or require; "": allow where there is a certificate
	Files cert.Files
}

// register registers the keys.
func (t *TLS) register(set *Set) {
	set.Add("tls", "", "[TLS](security.md#tls) on the same port: `off`, `allow`, or `require`: links without it are refused", OneOf(&t.mode, off, allow, require)).
		Without("`allow` with `tls_cert`, else `off`")
	set.Add("tls_cert", "", "a PEM file of the daemon's certificate, then its issuers'; read again when it changes", NonEmpty(&t.Files.Cert))
	set.Add("tls_key", "", "the file with its key", NonEmpty(&t.Files.Key))
	set.Add("tls_client_ca", "", "a PEM file of the CAs of client certificates; any other certificate ends the connection", NonEmpty(&t.Files.ClientCA))
}

// validate finds what is missing.
func (t *TLS) validate(set *Set) {
	switch {
	case t.Files.Cert != "" && t.Files.Key != "":
	case t.Files.Cert != "" || t.Files.Key != "":
		set.Require(" for TLS", "tls_cert", "tls_key")
	case t.mode == allow || t.mode == require:
		set.Require(" for tls = "+t.mode, "tls_cert", "tls_key")
	case t.Files.ClientCA != "":
		set.Require(" for tls_client_ca", "tls_cert", "tls_key")
	}
}

// Required tells whether a peer without TLS is refused.
func (t *TLS) Required() bool { return t.mode == require }

// Offered tells whether there is TLS.
func (t *TLS) Offered() bool { return t.mode != off && t.Files.Cert != "" && t.Files.Key != "" }

// Server is what the daemon offers; nil: no TLS.
func (t *TLS) Server(log *slog.Logger) (*tls.Config, error) {
	if !t.Offered() {
		return nil, nil
	}
	config, err := cert.Server(t.Files, log)
	if err != nil {
		return nil, fmt.Errorf("keys tls_cert, tls_key, tls_client_ca: %w", err)
	}
	return config, nil
}

// Trust says whether somebody is called with TLS, and who is trusted to be it.
type Trust struct {
	On      bool
	Prefers bool // TLS where there is some, whoever is there
	cert.Trust
}

// Register registers the keys, whose names begin with a prefix. whom is who is called; shows: a
// certificate may be shown to it; prefers: there is a word for TLS with whomever.
func (t *Trust) Register(set *Set, prefix, whom string, shows, prefers bool) {
	meaning := "[TLS](security.md#tls) to " + whom + ": `off`, or `verify` the certificate before anything is sent"
	words := []string{off, verify}
	if prefers {
		words = []string{off, preferred, verify}
		meaning = "[TLS](security.md#tls) to " + whom + ": `off`, `preferred` (encrypted where the server can, its certificate not verified), or `verify` the certificate before anything is sent"
	}
	set.Add(prefix+"tls", off, meaning, func(text string) error {
		var word string
		err := OneOf(&word, words...)(text)
		t.On, t.Prefers = word == verify || word == preferred, word == preferred
		return err
	})
	set.Add(prefix+"tls_ca", "", "a PEM file of CA certificates to verify "+whom, NonEmpty(&t.CA)).Without("the system's")
	set.Add(prefix+"tls_name", "", "the name that the certificate must have", NonEmpty(&t.Name)).Without("the host")
	if shows {
		set.Add(prefix+"tls_cert", "", "a file with the certificate to show to "+whom, NonEmpty(&t.Cert))
		set.Add(prefix+"tls_key", "", "the file with its key", NonEmpty(&t.Key))
	}
}

// Validate finds what is missing.
func (t *Trust) Validate(set *Set, prefix string) {
	if (t.Cert == "") != (t.Key == "") {
		set.Require(" for TLS", prefix+"tls_cert", prefix+"tls_key")
	}
	for _, given := range [][2]string{{"tls_ca", t.CA}, {"tls_name", t.Name}, {"tls_cert", t.Cert}, {"tls_key", t.Key}} {
		if given[1] != "" && !t.On && !set.Given(prefix+"tls") { // off by a closer source is no mistake
			set.Bad(prefix+given[0], "there is no TLS without "+prefix+"tls = verify")
		}
	}
}

// For is the TLS of a connection to a host, made anew for each; nil: there is none.
func (t *Trust) For(host string) func() (*tls.Config, error) {
	if !t.On {
		return nil
	}
	trust := t.Trust
	return func() (*tls.Config, error) { return trust.Config(host) }
}
