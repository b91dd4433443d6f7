package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// interactive are shells as somebody has them who has configured nothing, with the completion of
// jobctl; $ is their prompt.
var interactive = map[string]string{
	"bash": `env PS1='$ ' bash --norc --noprofile -i`,
	"zsh":  `env PS1='$ ' zsh -f -i`,
	"fish": `fish --no-config -i -C 'function fish_prompt; echo -n "\$ "; end; function fish_right_prompt; end'`,
}

// loading has a shell load the script.
var loading = map[string]string{
	"bash": `source <(jobctl completion bash); clear`,
	"zsh":  `source <(jobctl completion zsh); clear`,
	"fish": `jobctl completion fish | source; clear`,
}

// Somebody types and presses the tabulator, in each shell, and it writes what was meant.
func TestCompletionInRealShells(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	bin := t.TempDir()
	must.Do(t, os.Symlink(self, filepath.Join(bin, "jobctl")))
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"targets": {"mail-long": {}, "video:fast": {}, "a b": {}, "team@x": {}}, "memoryUsage": {}}`)})
	for shell, start := range interactive {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Fatalf("%s is missing: make deps installs it", shell)
			}
			m := startMultiplexer(t)
			home := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(home, ".jobctl.conf"), []byte("[prod]\nhost = 127.0.0.1\n"), 0o600))
			m.ask(t, "new-session", "-d", "-s", "person", "-x", "100", "-y", "30", "env HOME="+home+" XDG_CONFIG_HOME="+home+
				" XDG_DATA_HOME="+home+" PATH="+bin+":$PATH JOBCTL_PORT="+worker.port+" "+start)
			m.awaitScreen(t, "$")
			m.ask(t, "send-keys", "-t", "person", "-l", loading[shell])
			m.awaitScreen(t, "clear")
			m.ask(t, "send-keys", "-t", "person", "Enter")
			m.awaitScreen(t, "") // what stood there is gone
			for _, test := range []struct{ typed, want string }{
				{"jobctl sta", "$ jobctl status"},
				{"jobctl journal ver", "$ jobctl journal verify"},
				{"jobctl pause mail", "$ jobctl pause mail-long"},
				{"jobctl pause vi", "$ jobctl pause video:fast"},
				{"jobctl pause video:f", "$ jobctl pause video:fast"},
				{"jobctl pause a", `$ jobctl pause a\ b`},
				{"jobctl pause tea", "$ jobctl pause team@x"},
				{"jobctl pause team@", "$ jobctl pause team@x"},
				{"jobctl @", "$ jobctl @prod"},
				{"jobctl @pr", "$ jobctl @prod"},
				{"jobctl journal log --kind=accep", "$ jobctl journal log --kind=accepted"},
				{"jobctl journal log --job 5 --foll", "$ jobctl journal log --job 5 --follow"},
			} {
				m.ask(t, "send-keys", "-t", "person", "-l", test.typed)
				m.awaitScreen(t, test.typed)
				m.ask(t, "send-keys", "-t", "person", "Tab")
				m.awaitScreen(t, test.want)
				m.ask(t, "send-keys", "-t", "person", "C-u")
				m.awaitScreen(t, "")
			}
		})
	}
}

// awaitScreen waits until the line where somebody types is as wanted, after the prompt at least; of
// no text, until nothing but the prompt is there.
func (m multiplexer) awaitScreen(t *testing.T, want string) {
	t.Helper()
	shown := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		shown = strings.TrimRight(m.ask(t, "capture-pane", "-p", "-t", "person"), "\n ")
		if want == "" && shown == "$" || want != "" && strings.Contains(shown, want) {
			return
		}
	}
	t.Fatalf("no %q on the screen:\n%s", want, shown)
}
