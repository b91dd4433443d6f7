package executors

import (
	"testing"

	"jobd/tests/harness"
)

// cases are jobs, and what becomes of them in a process of their own.
var cases = []struct{ name, script, columns, want string }{
	{"output", `echo out`, "", `ok 0 - "out\n" ""`},
	{"stderr", `echo out; echo err >&2`, "", `ok 0 - "out\n" "err\n"`},
	{"no end of a line", `printf out`, "", `ok 0 - "out" ""`},
	{"nothing", `:`, "", `ok 0 - "" ""`},
	{"exit code", `echo out; exit 7`, "", `fail 7 - "out\n" ""`},
	{"exit code 255", `exit 255`, "", `fail 255 - "" ""`},
	{"SIGKILL", `echo out; kill -KILL $$`, "", `fail - SIGKILL "out\n" "[jobd: killed by a SIGKILL that was not jobd's]\n"`},
	{"SIGTERM", `echo out; kill -TERM $$`, "", `fail - SIGTERM "out\n" ""`},
	{"timeout", `echo out; exec sleep 300`, "timeout = 15", late},
	{"timeout, deaf", `trap '' TERM; echo out; sleep 300`, "timeout = 15", `fail - SIGKILL "out\n" "[jobd: ended after its timeout of 15s, with SIGTERM and, 5s later, SIGKILL]\n"`},
	{"at the limit", `head -c 4096 /dev/zero | tr '\0' x`, "", `ok 0 - <4096 bytes> ""`},
	{"both at the limit", `head -c 4096 /dev/zero | tr '\0' x; head -c 4096 /dev/zero | tr '\0' y >&2`, "", `ok 0 - <4096 bytes> <4096 bytes>`},
	{"beyond the limit", `head -c 1000000 /dev/zero | tr '\0' x`, "", `ok 0 - <4138 bytes> ""`},
	{"NUL bytes", `printf 'a\0b\0'`, "", `ok 0 - "a\x00b\x00" ""`},
	{"bytes that are no text", `printf 'a\377b'`, "", `ok 0 - "a�b" ""`},
	{"stdin is empty", `cat; echo out`, "", `ok 0 - "out\n" ""`},
	{"a child keeps the pipe", `sleep 300 & echo out`, "", `ok 0 - "out\n" ""`},
	{"a child that left its group keeps the pipe", `setsid sleep 300 & echo "start $id 99 - $!" >>"$dir/oracle"; echo out`, "", `ok 0 - "out\n" ""`},
	{"its number", `echo $attempt`, "max_attempts = 3", `ok 0 - "1\n" ""`},
	{"tried again", `echo $attempt; test $attempt = 2 || code=3`, "max_attempts = 2", `ok 0 - "2\n" ""`},
}

// Two of the slots are held by timeouts.
func TestCases(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4, harness.Settings{"max_output_buffer": "4096"})
	s.runCases(t, func(string) bool { return true })
}

// runCases runs those cases with all executors.
func (s *site) runCases(t *testing.T, has func(name string) bool) {
	for _, e := range s.executors {
		s.settings = s.settings.With(harness.Terms(e.name, harness.Settings{"kill_after": "5s", "backoff": "1s"}))
		for i, c := range cases {
			columns := []string{waiting}
			if c.columns != "" {
				columns = append(columns, c.columns)
			}
			if has(c.name) {
				s.insert(e, i, c.script, columns...)
			}
		}
	}
	s.start()
	for _, e := range s.executors {
		t.Run(e.name, func(t *testing.T) {
			for i, c := range cases {
				if !has(c.name) {
					continue
				}
				row := s.AwaitDone(t, s.id(e, i))
				if got, want := shown(row), e.want(c.name, c.want); got != want {
					t.Errorf("%s: it ended as %s, not as %s", c.name, got, want)
				}
			}
		})
	}
	s.startedOnce()
}
