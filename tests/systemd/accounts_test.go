package systemd

import (
	"strings"
	"testing"

	"jobd/tests/harness"
)

// With job-accounts.conf, and all else closed as the unit has it, jobs have the account of launcher.user, can
// be ended, and have no capability; without it the worker does not start, and says why.
func TestJobAccountsUnderSystemd(t *testing.T) {
	t.Parallel()
	m, db := boot(t), harness.NewDatabase(t)
	m.install(harness.Program(t, "jobd"))
	settings := db.Worker(t, "worker", "/usr/bin/job {id}", map[string]int{"own": 1, "other": 1, "held": 1}).Without("journal_dir").With(
		harness.Settings{"launcher.cwd": "/"}, harness.Terms("other", harness.Settings{"launcher.user": "daemon"}),
		harness.Terms("held", harness.Settings{"launcher.user": "daemon", "launcher": "/usr/bin/sleep 300{id}"}))
	m.write("/etc/jobd.conf", settings.String(), "644")
	m.write("/usr/bin/job", "#!/bin/sh\nid -un; grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNew|Seccomp:' /proc/self/status", "755")
	m.write("/etc/systemd/system/jobd.service.d/test.conf", "[Service]\nRestart=no\nStandardError=append:/run/jobd.log", "644")
	m.run("systemctl daemon-reload")
	if out, err := m.try("systemctl start jobd"); err == nil {
		t.Errorf("it starts without the drop-in: %s", out)
	}
	if said := m.run("cat /run/jobd.log"); !strings.Contains(said, "launcher of [target other]: its jobs are to run as user daemon, and this process lacks CAP_SETUID, CAP_SETGID, CAP_KILL; start jobd as root, or under systemd with job-accounts.conf") {
		t.Errorf("without the drop-in it says %s", said)
	}
	m.copy("/etc/systemd/system/jobd.service.d", harness.Top()+"/packaging/systemd/job-accounts.conf")
	m.run("systemctl daemon-reload; systemctl start jobd")
	for id, target := range []string{"held", "other", "own"} {
		db.Insert(t, int64(id+1), target, "waiting")
	}
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil)
	const none = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
	for id, account := range map[int64]string{2: "daemon", 3: "jobd"} {
		if got := harness.Text(db.AwaitDone(t, id).Stdout); got != account+"\n"+none {
			t.Errorf("the job of %s says %s", account, got)
		}
	}
	m.run("jobctl --config= --port " + settings["port"] + " restart")
	m.run("jobctl --config= --port " + settings["port"] + " cancel 1")
	if row := db.AwaitDone(t, 1); harness.Text(row.Sig) != "SIGTERM" {
		t.Errorf("the job that was cancelled: %v", row)
	}
	m.run("systemctl stop jobd")
}
