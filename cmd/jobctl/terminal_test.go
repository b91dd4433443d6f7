package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// asProgram has the test's binary be jobctl.
const asProgram = "JOBCTL_TEST_AS_PROGRAM"

// multiplexer is a tmux of the test's own: a real terminal, of which one can ask what it shows.
type multiplexer struct{ socket string }

func startMultiplexer(t *testing.T) multiplexer {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is missing: make deps installs it")
	}
	dir, err := os.MkdirTemp("", "mux") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	m := multiplexer{filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = m.command("kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	return m
}

func (m multiplexer) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", m.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=", "COLUMNS=", asProgram+"=1")
	return cmd
}

func (m multiplexer) ask(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// shows runs jobctl in a terminal so wide that no column is cut, and gives what a person sees there
// when it has ended.
func (m multiplexer) shows(t *testing.T, args ...string) string {
	t.Helper()
	return m.showsIn(t, 600, args...)
}

func (m multiplexer) showsIn(t *testing.T, columns int, args ...string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	words := []string{"'" + self + "'"}
	for _, arg := range args {
		words = append(words, "'"+arg+"'")
	}
	script := strings.Join(words, " ") + `; echo "exit code $?"; tmux wait-for -S ended; exec cat`
	m.ask(t, "new-session", "-d", "-s", "person", "-x", strconv.Itoa(columns), "-y", "40", script)
	m.ask(t, "wait-for", "ended")
	shown := m.ask(t, "capture-pane", "-p", "-J", "-t", "person")
	if title := m.ask(t, "display-message", "-p", "-t", "person", "#{pane_title}"); strings.Contains(title, "owned") {
		t.Errorf("the terminal's title is %q", title)
	}
	if kept, _ := m.command("show-buffer").Output(); len(kept) > 0 {
		t.Errorf("the clipboard holds %q", kept)
	}
	m.ask(t, "kill-session", "-t", "person")
	return shown
}

// attack is what a job, a target's name or a peer's error may hold: it clears the screen, sets the
// title and the clipboard, goes back over the line, and turns the text around.
const attack = "first\x1b[2J\x1b[H\x1b]2;owned\x07\x1b]52;c;b3duZWQ=\x07\u009b2J\rXXXXX\b\b\u202eabc\u200b\U000e0041"

const attackShown = `first\x1b[2J\x1b[H\x1b]2;owned\x07\x1b]52;c;b3duZWQ=\x07\u009b2J\rXXXXX\x08\x08\u202eabc\u200b\udb40\udc41`

// A person sees what was said, and nothing of it steers the terminal.
func TestInARealTerminal(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(attack)
	worker := startDaemon(t, "", map[string]any{
		"status":     json.RawMessage(fmt.Sprintf(`{"targets": {%s: {"concurrency": 3}}, "memoryUsage": {}}`, text)),
		"run-manual": json.RawMessage(fmt.Sprintf(`{"jobs": {"5": {"result": "ok", "code": 0, "stdout": %s, "stderr": %[1]s}}, "errors": {"6": %[1]s}}`, text)),
	})
	master := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(fmt.Sprintf(`{"workers": [{"remoteAddr": "10.0.0.1", "remotePort": 1, "name": %s, "targets": [%[1]s]}], "memoryUsage": {}}`, text)),
		"pause":  jobnet.Refusal("worker '" + attack + "': no"),
	})
	for name, test := range map[string]struct {
		args  []string
		times int // how often the whole of it is there to be read
	}{
		"a target's name":         {[]string{"--port", worker.port, "list-targets"}, 1},
		"as JSON":                 {[]string{"--port", worker.port, "list-targets", "--output=json"}, 0},
		"a job's output":          {[]string{"--port", worker.port, "run-manual", "5"}, 2},
		"of several jobs":         {[]string{"--port", worker.port, "run-manual", "5", "6"}, 3},
		"a worker's name":         {[]string{"--master", "--port", master.port, "list-workers"}, 2},
		"a peer's error":          {[]string{"--master", "--port", master.port, "pause"}, 1},
		"a job's story":           {[]string{"journal", "show", "5", "--journal", attacked(t)}, 4},
		"an argument of somebody": {[]string{"journal", "verify", "--journal", "/no/" + attack}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := strings.ReplaceAll(startMultiplexer(t).shows(t, test.args...), "\n", "")
			if got := strings.Count(shown, attackShown); got < test.times || !strings.Contains(shown, "exit code") {
				t.Errorf("%d times %s, want %d, in\n%s", got, attackShown, test.times, shown)
			}
			if !strings.Contains(shown, "first") || strings.ContainsAny(shown, "\u202e\u200b\U000e0041") {
				t.Errorf("shows %q", shown)
			}
		})
	}
}

// attacked is a journal of a job that printed it, for a target of that name, by a worker of that name.
func attacked(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir)
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: attack}},
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: attack, Token: "@tokenfive"}},
		journal.Draft{Job: 5, Payload: journal.Running{Attempt: 1}},
		journal.Draft{Job: 5, Payload: journal.Started{Pid: 100, StartTime: 1, BootID: "boot"}},
		journal.Draft{Job: 5, Payload: journal.Done{
			Result: "fail", Stdout: journal.Output{Kept: []byte(attack), Size: int64(len(attack))}, Stderr: journal.Output{Kept: []byte(attack), Size: int64(len(attack))},
		}},
	)
	must.Do(t, j.Close())
	return dir
}

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

// A column that is named as elastic is cut so that lines fit; elsewhere than on a terminal, and
// where there is room, everything is whole.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	const long = "the row is locked by somebody who has gone to lunch"
	for name, test := range map[string]struct {
		columns int
		piped   bool
		elastic string
		want    string
	}{
		"room enough":   {columns: 100, elastic: "REASON", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"not known":     {elastic: "REASON", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"cut":           {columns: 34, elastic: "REASON", want: "JOB | REASON            | BY\n----+-------------------+---------\n5   | the row is locke… | somebody\n"},
		"no elastic":    {columns: 34, want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"the least":     {columns: 5, elastic: "REASON", want: "JOB | REASON   | BY\n----+----------+---------\n5   | the row… | somebody\n"},
		"widest first":  {columns: 30, elastic: "BY|REASON", want: "JOB | REASON        | BY\n----+---------------+---------\n5   | the row is l… | somebody\n"},
		"piped":         {columns: 34, piped: true, elastic: "REASON", want: "JOB  REASON                                               BY\n5    " + long + "  somebody\n"},
		"left out":      {columns: 65, elastic: "REASON|-BY", want: "JOB | REASON\n----+----------------------------------------------------\n5   | " + long + "\n"},
		"cut as well":   {columns: 17, elastic: "-BY|REASON|-JOB", want: "REASON\n-----------------\nthe row is locke…\n"},
		"not left out":  {columns: 68, elastic: "-BY", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"exactly":       {columns: 68, elastic: "REASON", want: "JOB | REASON                                              | BY\n----+-----------------------------------------------------+---------\n5   | " + long + " | somebody\n"},
		"one too small": {columns: 67, elastic: "REASON", want: "JOB | REASON                                             | BY\n----+----------------------------------------------------+---------\n5   | the row is locked by somebody who has gone to lun… | somebody\n"},
	} {
		var out strings.Builder
		p := &program{surroundings: surroundings{out: &out, terminal: !test.piped, width: func() int { return test.columns }}}
		all := p.table("", test.elastic, "JOB", "REASON", "BY")
		all.add(5, long, "somebody")
		all.print()
		if out.String() != test.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, &out, test.want)
		}
	}
}

// A person reads the time of day of what was today, and the date of what was not; programs, and
// whoever wants it, the whole.
func TestClock(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 9*3600)
	at := time.Date(2026, 11, 20, 10, 0, 5, 600_000_000, time.UTC)
	for name, test := range map[string]struct {
		now     time.Time
		place   *time.Location
		piped   bool
		precise bool
		want    string
	}{
		"today":             {now: at.Add(time.Hour), place: time.UTC, want: "10:00:05"},
		"yesterday":         {now: at.Add(24 * time.Hour), place: time.UTC, want: "2026-11-20 10:00:05"},
		"tomorrow":          {now: at.Add(-24 * time.Hour), place: time.UTC, want: "2026-11-20 10:00:05"},
		"a year ago":        {now: at.AddDate(1, 0, 0), place: time.UTC, want: "2026-11-20 10:00:05"},
		"today there":       {now: at.Add(-6 * time.Hour), place: east, want: "19:00:05"},
		"not any more here": {now: at.Add(6 * time.Hour), place: east, want: "2026-11-20 19:00:05"},
		"precise":           {now: at, place: time.UTC, precise: true, want: "2026-11-20 10:00:05.600000"},
		"piped":             {now: at, place: time.UTC, piped: true, want: "2026-11-20 10:00:05.600000"},
	} {
		p := &program{surroundings: surroundings{terminal: !test.piped, location: test.place, now: func() time.Time { return test.now }}}
		p.config.precise = test.precise
		check.Equal(t, p.clock(at), test.want, "%s", name)
		check.Equal(t, p.clock(time.Time{}), "", "%s: no time at all is", name)
	}
	for flag, want := range map[string]string{"--precise": "2026-11-20 10:00:05.000000", "--output=table": "10:00:05"} {
		got := jobctl{terminal: true}.run(t, "journal", "log", "--kind=done", "--job=5", "--journal", oneDay(t), flag)
		if !strings.HasPrefix(got.out, want+" ") {
			t.Errorf("%s: %+v, want it to begin with %q", flag, got, want)
		}
	}
}

// On a terminal of 80 columns the times of statistics stand in one line, whatever they are.
func TestTimesOfStatisticsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		12 * time.Microsecond: "12µs", 306838 * time.Microsecond: "307ms", 4812 * time.Millisecond: "4.81s",
		20003 * time.Millisecond: "20s", 41499 * time.Millisecond: "41.5s", 113 * time.Second: "1m53s", 6725 * time.Second: "1h52m",
	} {
		check.Equal(t, brief(d), want, "%v is", d)
	}
}
