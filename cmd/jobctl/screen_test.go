package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jobnet "jobd/net"
)

const nasty = "a\x1b[2J\u202eb\rc\u200b"

// Whatever a peer says, on every way out of the program.
func TestWhatPeersSayIsShownOnATerminal(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(nasty)
	status := fmt.Sprintf(`{"targets": {%s: {"why": %[1]s}}, "server": %[1]s, "mark": %[1]s, "memoryUsage": {}}`, text)
	d := startDaemon(t, "", map[string]any{
		"status":     json.RawMessage(status),
		"poll":       nasty,
		"run-manual": json.RawMessage(fmt.Sprintf(`{"jobs": {"5": {"result": %s, "stdout": %[1]s, "stderr": %[1]s, "signal": %[1]s}}, "errors": {"6": %[1]s}}`, text)),
	})
	for _, args := range []string{"status", "status --output=json", "list-targets", "poll", "run-manual 5 6", "run-manual --output=json 5", "journal log"} {
		got := jobctl{terminal: true}.run(t, append([]string{"--port", d.port}, strings.Fields(args)...)...)
		if all := got.out + got.err; strings.ContainsAny(all, "\x1b\r\u202e\u200b") || args != "journal log" && !strings.Contains(all, `\u202e`) {
			t.Errorf("%s: %q", args, all)
		}
	}
}

// A peer's error in several lines can't pass for what jobctl says.
func TestEachLineOfAPeersErrorNamesThePeer(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"poll": jobnet.Refusal("no\njobctl: all is well\x1b[m")})
	want := "jobctl: 127.0.0.1:PORT: no\njobctl: 127.0.0.1:PORT: jobctl: all is well\\x1b[m\n"
	jobctl{}.expect(t, d, output{code: 1, err: want}, "poll")
}

// In a pipe a job's output is what the job wrote, byte for byte.
func TestAPipeGetsTheBytesOfAJob(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(nasty)
	d := startDaemon(t, "", map[string]any{
		"run-manual": json.RawMessage(fmt.Sprintf(`{"jobs": {"5": {"result": "ok", "code": 0, "stdout": %s, "stderr": %[1]s}}}`, text)),
	})
	jobctl{}.expect(t, d, output{out: nasty, err: nasty}, "run-manual", "5")
}
