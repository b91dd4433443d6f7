package gearman

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(asWorker); order != "" {
		fmt.Fprintln(os.Stderr, beWorker(order))
		os.Exit(1)
	}
	harness.MainAtOnce(m, 6)
}

// gearmand starts the reference, with an empty memory, and gives where it listens.
func gearmand(t *testing.T, options ...string) (addr string) {
	t.Helper()
	port := harness.FreePort(t)
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "gearmand.log")))(t)
	user := must.Get(exec.Command("id", "-un").Output())(t)
	options = append([]string{
		"--listen=127.0.0.1", "--port=" + port, "--log-file=stderr", "--verbose=ERROR", "--threads=1",
		"--user=" + strings.TrimSpace(string(user)), "--pid-file=" + log.Name() + ".pid",
	}, options...)
	server := exec.Command("gearmand", options...)
	server.Stdout, server.Stderr = log, log
	must.Do(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("gearmand wrote:\n%s", said)
		}
	})
	addr = "127.0.0.1:" + port
	awaitListener(t, addr)
	return addr
}
