package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// What is no answer of jobd's is an error of the client's own, and never a job that is taken to have
// run, or an error of the language.
func TestClientsRefuseOtherAnswers(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	for name, answer := range map[string]string{
		"nothing":           `[1,{"no":1,"data":null}]`,
		"a text":            `[1,{"no":1,"data":"ok"}]`,
		"other errors":      `[1,{"no":1,"data":{"errors":"none"}}]`,
		"deep lists":        deep,
		"a page, and gone":  "HTTP/1.1 400 Bad Request\r\n\r\nno",
		"an error, no text": `[1,{"no":1,"error":{"a":[1]},"code":[2]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(p *peer) {
				if strings.HasPrefix(name, "a page") {
					fmt.Fprint(p.conn, answer)
					p.conn.Close()
					return
				}
				p.send(answer)
				if answer == deep {
					p.conn.Close() // bash reads no lists
				}
			})
			everywhere(t, func(t *testing.T, _ int, l language) {
				if l.name == "sh" && strings.Contains("deep lists, other errors, an error, no text", name) {
					return // it hands on what it gets, and looks at the beginning only
				}
				for _, word := range []string{"run 1:a", "signal 9 1:a"} {
					told := l.call(daemon(addr, true, ""), strings.Fields(word)...)
					if name == "an error, no text" {
						if told.code != "refused" && told.code != "nonsense" {
							t.Errorf("%s: %s: %v", l.name, word, told)
						}
					} else if !told.failed(l, "nonsense") {
						t.Errorf("%s: %s: %v", l.name, word, told)
					}
				}
			})
		})
	}
}

// A time that bash can't read is wrong usage, not a job that failed; the forms that jobctl takes are
// read.
func TestTimesOfTheShellsClient(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(p *peer) { p.send(`[1,{"no":1,"data":{"jobs":{}}}]`) })
	for limit, code := range map[string]int{
		"8s": 0, "9.5": 0, "15000ms": 0, "08": 0, "": 0,
		"soon": 2, "-1": 2, "1e3": 2, "1.5m": 2, "a[$(exit)]": 2,
	} {
		for _, name := range []string{"JOBCTL_TIMEOUT", "JOBCTL_PULSE"} {
			cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Top(), "examples", "clients", "jobd.sh"), "run", "1:a")
			cmd.Env = os.Environ()
			for key, value := range daemon(addr, true, "") {
				cmd.Env = append(cmd.Env, key+"="+value)
			}
			cmd.Env = append(cmd.Env, name+"="+limit)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != code || code == 2 != strings.Contains(string(out), name) {
				t.Errorf("%s=%s: exit code %d, want %d: %s", name, limit, got, code, out)
			}
		}
	}
}
