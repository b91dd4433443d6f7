package systemd

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// Whoever has a daemon read a configuration with a mistake is answered by nobody. The daemons' words
// for systemctl status, jobctl status and jobctl health say so until it is mended, and quote nothing.
func TestConfigurationThatIsNotTakenOver(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1})
	for program, settings := range map[string]harness.Settings{
		"jobd": worker, "jobd-master": {"host": "127.0.0.1", "port": harness.FreePort(t)},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			m, file := newManager(t, 0), settings.Write(t)
			script := harness.Script(t, "NOTIFY_SOCKET="+m.path+" exec "+harness.Program(t, program)+` "$@"`)
			d := harness.LaunchBinary(t, script, file, settings.Addr()).Ready(t)
			reload := func(s harness.Settings) {
				if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				d.Signal(t, syscall.SIGHUP)
			}
			words := "; the configuration was refused at "

			reload(settings.With(harness.Settings{"port": "hunter2"}))
			m.awaitWords(words, true)
			if program == "jobd" {
				for command, want := range map[string]string{"status": "its configuration was refused at ", "health": "JOBD WARNING - worker worker: its configuration has had a mistake"} {
					if out := ask(t, settings, command); !strings.Contains(out, want) || strings.Contains(out, "hunter2") {
						t.Errorf("jobctl %s says %s", command, out)
					}
				}
			}
			if said := strings.Join(m.messages(0), "\n"); strings.Contains(said, "hunter2") {
				t.Errorf("the words quote the file: %s", said)
			}

			reload(settings)
			m.awaitWords(words, false)
			if program == "jobd" {
				if out := ask(t, settings, "health"); !strings.HasPrefix(out, "JOBD OK") {
					t.Errorf("when it is mended jobctl health says %s", out)
				}
			}
		})
	}
}

// awaitWords waits until what was said last of how the daemon stands has some words in it, or has not.
func (m *manager) awaitWords(words string, has bool) {
	m.t.Helper()
	harness.Until(m.t, func() string {
		last := ""
		for _, said := range m.messages(0) {
			if strings.Contains(said, "STATUS=") {
				last = said
			}
		}
		if strings.Contains(last, words) != has {
			return "it said last " + last
		}
		return ""
	})
}

// ask is what jobctl prints.
func ask(t *testing.T, settings harness.Settings, command string) string {
	t.Helper()
	out, _ := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), "--config=", "--port", settings["port"], command).CombinedOutput()
	return string(out)
}
