package journal

import (
	"bytes"
	"strings"
)

// vectorDays is what happens in the vectors' journal: every kind of event, and at the end of each day jobs of every status that
// a checkpoint can hold. Names are awkward on purpose: JSON has more than one way to write them.
func vectorDays() [][]Draft {
	const name, odd = "nœud-1 <a&b>", "video/\u2028\"high\"\\\t<&>\u007f"
	three, zero := 3, 0
	text := []byte(strings.Repeat("a line that compresses well\n", 20))
	frame := []byte("\x28\xb5\x2f\xfdthis looks like zstd, and is none")
	worker := func(p Payload) Draft { return Draft{Payload: p} }
	opened := worker(Opened{
		Name: name, Version: "1.0.0", Pid: 4711, BootID: "b-1", Targets: map[string]int{"mail": 2, odd: 1}, Host: "host-1",
		Launcher: []string{"/usr/bin/env", "run"},
	})
	return [][]Draft{
		{
			opened,
			worker(Marked{"k7"}),
			worker(Server{Server: "uuid-1"}),
			{1, Accepted{Target: "mail", Token: "@k7aaaaaaa", Created: 1795000000}},
			{1, Running{Attempt: 1, Claimed: true, Token: "@k7aaaaaaa"}},
			{1, Started{Pid: 100, StartTime: 1<<53 + 1, BootID: "b-1"}},
			{1, Done{Result: "ok", Code: &zero, Stdout: Output{text, 560}, Stderr: Output{frame, 40}, Elapsed: 12, Token: "@k7aaaaaaa"}},
			{2, Accepted{Target: odd, Token: "@k7aaaaaab"}},
			{1<<63 - 1, Accepted{Target: "mail", Manual: true, Token: "@k7aaaaaac"}},
			{1<<63 - 1, Running{Attempt: 1, Runner: "r-1"}},
			{-5, Accepted{Target: "mail", Token: "@k7aaaaaad"}},
			{-5, Running{Attempt: 1}},
			{-5, Started{Pid: 101, StartTime: 7, BootID: "b-1"}},
			worker(Paused{[]string{odd, "unknown"}, "127.0.0.1:5"}),
		},
		{
			{-5, Conflict{Found: &Row{Target: "mail", Status: "waiting"}, Wanted: RowRunning, Token: "@k7aaaaaad"}}, // so it is lost
			{-5, Conflict{Wanted: RowDone, Token: "@k7another"}},                                                    // of an older claim
			{-5, Conflict{Wanted: RowIgnored, Reason: "gone"}},
			{-5, Signal{15, "shutdown"}},
			{1<<63 - 1, Running{Attempt: 1, Runner: "r-2"}}, // the same attempt, since nothing was started
			{2, SetAside{Wanted: RowRunning, Reason: "locked", Token: "@k7aaaaaab"}},
			worker(Requested{Jobs: []int64{3, 4}, More: 1, By: "127.0.0.1:6"}),
			{3, Ignored{"not manual"}},
			{3, Conflict{Wanted: RowIgnored, Reason: "the row is locked"}},
			{4, Accepted{Target: "mail", Manual: true, Token: "@k7aaaaaae"}},
			{4, Released{Reason: "shutdown", Target: "mail", Manual: true, Token: "@k7aaaaaae"}},
			worker(TargetAdded{"new", 4, "127.0.0.1:6"}),
			worker(ConcurrencySet{"new", 0, "127.0.0.1:6"}),
			worker(Refused{Request: "remove-target", About: "unknown", Reason: "there is none", By: "127.0.0.1:6"}),
			worker(Closed{"shutdown"}),
		},
		{
			opened,
			worker(Paused{[]string{"mail"}, "configuration file"}),
			worker(Continued{[]string{"mail"}, "127.0.0.1:7"}),
			worker(TargetRemoved{odd, "SIGHUP"}),
			worker(Reloaded{File: "/etc/jobd.conf", Digest: strings.Repeat("0f", 32), Changed: []string{"targets.new"}, By: "SIGHUP"}),
			worker(Reapplied{From: 1, To: 29, By: "127.0.0.1:7"}),
			worker(Reapplied{From: 1, To: 29, Rows: 1, By: "127.0.0.1:7", Ended: true}),
			{-5, Requeued{Reason: "nobody knows how it ended", By: "on_crash = requeue", Token: "@k7aaaaaad"}},
			{-5, Running{Attempt: 2}},
			{-5, Started{Pid: 9, StartTime: 8, BootID: "b-2"}},
			{2, Conflict{Found: &Row{Target: odd, Status: "done", Owner: "x"}, Wanted: RowRunning}},
			{5, Accepted{Target: "mail", Token: "@k7aaaaaaf"}},
			{5, Running{Attempt: 1}},
			{5, Started{Pid: 10, StartTime: 9, BootID: "b-2"}},
		},
		{
			{-5, Done{Result: "fail", Signal: "SIGKILL", Stdout: Output{bytes.Repeat([]byte{0, 255}, 300), 900}, Reason: "killed", Note: "by <somebody>"}},
			{1<<63 - 1, Done{Result: "fail", Code: &three, Reason: "never started"}},
			worker(Closed{"shutdown"}),
		},
	}
}
