package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The clients for PHP and Node.js reach a daemon over a socket that is set, or that is there where nothing
// says where to go; and send nothing to one that others may have put there.
func TestClientsOnASocket(t *testing.T) {
	t.Parallel()
	folder := must.Get(os.MkdirTemp("", "clients"))(t) // its path is short
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "jobd-master.sock")
	harness.StartMaster(t, harness.Settings{"password": password, "listen_unix": socket})
	const foreign, refused = 54321, "it, or its folder, belongs to another account"
	set := settings{"JOBCTL_SOCKET": socket}
	for _, test := range []struct {
		name           string
		file, folder   int // whose they are
		ask            settings
		code, contains string
	}{
		{"a socket that is set", 0, 0, set, "", `"workers":[]`},
		{"a socket that is there", 0, 0, settings{"JOBCTL_SOCKETS": folder}, "", `"workers":[]`},
		{"none there, and nobody at the port", 0, 0, settings{"JOBCTL_SOCKETS": t.TempDir()}, "unreachable", "jobd-master.sock: "},
		{"none where one is set", 0, 0, settings{"JOBCTL_SOCKET": socket + ".2"}, "unreachable", "jobd-master at " + socket + ".2 can't be reached: "},
		{"another's socket", foreign, 0, set, "unreachable", refused},
		{"another's folder", 0, foreign, set, "unreachable", refused},
		{"that of the owner who is set", foreign, foreign, set.with(settings{"JOBCTL_OWNER": "54321"}), "", `"workers":[]`},
	} {
		if os.Geteuid() == 0 {
			must.Do(t, os.Chown(socket, test.file, -1))
			must.Do(t, os.Chown(folder, test.folder, -1))
		} else if test.file+test.folder != 0 {
			continue // another account needs root
		}
		for _, l := range languages(t) {
			if l.name != "php" && l.name != "node" {
				continue
			}
			told := l.call(test.ask.with(settings{"JOBCTL_MASTER": "true", "JOBCTL_PASSWORD": password}), "status")
			if told.code != test.code || !strings.Contains(told.out+told.text, test.contains) {
				t.Errorf("%s, %s: %v, want %q", l.name, test.name, told, test.contains)
			}
		}
	}
}
