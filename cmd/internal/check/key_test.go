package check_test

import (
	"os"
	"strings"
	"testing"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
)

// A key that every account can read is a warning, and one that the daemon's group can read is none.
func TestAKeyThatIsOpen(t *testing.T) {
	t.Parallel()
	file, key := certtest.New(t).Issue(t, t.TempDir(), "127.0.0.1")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		must.Do(t, os.Chmod(key, mode))
		found := check.Certificate(conf.TLS{Files: cert.Files{Cert: file, Key: key}})
		last := found[len(found)-1]
		if got := last.Level == check.Warning && strings.Contains(last.Detail, "every account of this host"); got != warned {
			t.Errorf("mode %o: warned %v: %+v", mode, got, found)
		}
	}
}
