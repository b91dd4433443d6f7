package secure

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"jobd/net/cert/certtest"
	"jobd/tests/harness"
)

// A worker shows its own certificate to a master that asks for one: that is its credential, for its name and its
// targets only. One that was renewed, or came late, counts from the next call on.
func TestAWorkersCertificateIsItsCredential(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	p := newPeople(t, "node-7 worker mail cert:node-7.example.com", "w1 worker mail localhost")
	master := harness.StartMaster(t, p.settings(), harness.Settings{"tls_client_ca": authority.File}, offered(t, authority, t.TempDir(), "allow"))
	db := harness.NewDatabase(t)
	db.Insert(t, 1, "mail", "waiting")
	file, key := authority.Issue(t, folder, "node-8.example.com")
	node := func(db *harness.Database, name string, targets ...string) harness.Settings {
		slots := make(map[string]int)
		for _, target := range targets {
			slots[target] = 1
		}
		return db.Worker(t, name, harness.Script(t, "true")+" {id}", slots).With(harness.MasterOf(master), harness.Settings{
			"tls_cert": file, "tls_key": key, "master_tls": "verify", "master_tls_ca": authority.File, "master_reconnect_timeout": "100ms",
		})
	}
	worker := node(db, "node-7", "mail").StartWorker(t)
	awaitSaid(t, worker, "w1 may register under its own name only, not as node-7") // the certificate has another name, so localhost counts
	authority.Issue(t, folder, "node-7.example.com", "127.0.0.1")
	awaitSaid(t, master, "worker registered")
	foreign := node(harness.NewDatabase(t), "node-7", "mail", "billing").StartWorker(t)
	awaitSaid(t, foreign, "node-7 may serve mail, not billing")
	other := node(db, "node-9", "mail").StartWorker(t)
	awaitSaid(t, other, "node-7 may register under its own name only, not as node-9")
	for _, d := range []*harness.Daemon{foreign, other} {
		d.Signal(t, syscall.SIGTERM)
		d.ExitCode(t)
	}
	checked, _ := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobd"), "--config", node(db, "node-7", "mail").Write(t), "--check").CombinedOutput()
	if !strings.Contains(string(checked), "its credential is a worker's") {
		t.Errorf("--check: %s", checked)
	}
	db.AwaitCount(t, 1, "status = 'done'")
	p.remove("node-7 ")
	awaitSaid(t, master, "worker left")
	awaitSaid(t, worker, "no connection to the master, trying again")
}
