package walk

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "write what the commands print into README.md")

// step is one block of README.md, or one command of a block with answers.
type step struct {
	line   int    // of the page, counted from 1
	script string // what the machine runs
	want   []string
	shows  bool // its output stands on the page, in the lines of want
}

// TestReadme goes through README.md from the top to the end, on a machine that has never seen jobd:
// every command as it stands, each on what the ones before it left, and compares what is printed.
func TestReadme(t *testing.T) {
	t.Parallel()
	name := filepath.Join(harness.Top(), "README.md")
	lines := strings.Split(file(t, name), "\n")
	steps := stepsOf(t, lines)
	harness.Program(t, "jobctl") // make build, which the page wants
	m := newMachine(t)
	if strings.Contains(strings.Join(lines, "\n"), "\nmake package") {
		m.givePackage(t)
	}
	var script strings.Builder
	script.WriteString(preamble)
	for i, s := range steps {
		fmt.Fprintf(&script, "\nbegin %d\n%s\nend %d\n", i, s.script, i)
	}
	written := m.run(t, script.String())
	answers := answersIn(written)
	for i, s := range steps {
		a, ended := answers[i]
		switch {
		case !ended:
			t.Fatalf("README.md:%d: these commands did not end well:\n%s\nthe machine wrote:\n%s", s.line, s.script, written)
		case !s.shows:
			continue
		}
		if diff := cmp.Diff(harness.Masked(strings.Join(s.want, "\n")), harness.Masked(a)); diff != "" && !*update {
			t.Errorf("README.md:%d: %s prints something else now (-page +now):\n%s\nit printed:\n%s", s.line, s.script, diff, a)
		} else if diff == "" {
			answers[i] = strings.Join(s.want, "\n")
		}
	}
	if *update {
		must.Do(t, os.WriteFile(name, []byte(strings.Join(rewritten(lines, steps, answers), "\n")), 0o644))
	}
}

// preamble is what the script has beside the page's commands. A person takes a moment before typing on
// when a program was started: settle waits until the worker listens, registered until the master knows it.
const preamble = `
set -eE
cd ~/jobd
trap 'echo "failed with $?: $BASH_COMMAND" >&2' ERR
begin() { printf '\036begin %d\n' "$1"; }
end()   { printf '\036end %d\n' "$1"; }
settle() { until (exec 3<>/dev/tcp/127.0.0.1/7080) 2>/dev/null; do kill -0 "$1"; sleep 0.05; done; }
registered() { until JOBCTL_PASSWORD='something long' jobctl --master list-workers 2>/dev/null | grep -q default; do sleep 0.05; done; }
show()  { script -qec "stty cols 100 rows 40 -echo; $1" /dev/null || true; }
`

// made is what the page has a person make before: CI does so itself, or the test, outside of the machine.
var made = regexp.MustCompile(`(?m)^make (build|demo|test|package)\b.*\n`)

// stepsOf reads the page: blocks of sh and sql, commands of console blocks, and ini blocks, which are
// written into the file that the text above them names last.
func stepsOf(t *testing.T, lines []string) []step {
	t.Helper()
	var steps []step
	configured := regexp.MustCompile("`(/etc/[a-z./-]+)`")
	target := ""
	for i := 0; i < len(lines); i++ {
		language, isFence := strings.CutPrefix(lines[i], "```")
		if !isFence {
			for _, found := range configured.FindAllStringSubmatch(lines[i], -1) {
				target = found[1]
			}
			continue
		}
		from := i + 1
		for i = from; lines[i] != "```"; i++ {
		}
		text := strings.Join(lines[from:i], "\n") + "\n"
		switch language {
		case "sh":
			if text = made.ReplaceAllString(text, ""); strings.TrimSpace(text) != "" {
				text = started.ReplaceAllString(settled.ReplaceAllString(text, "$0\nsettle $$!"), "$0\nregistered")
				steps = append(steps, step{line: from + 1, script: text})
			}
		case "sql":
			steps = append(steps, step{line: from + 1, script: "sudo mariadb <<'END OF SQL'\n" + text + "END OF SQL"})
		case "ini":
			steps = append(steps, step{line: from + 1, script: "sudo sh -c 'cat >" + target + "' <<'END OF FILE'\n" + text + "END OF FILE"})
		case "console":
			steps = append(steps, commandsOf(t, lines[from:i], from)...)
		case "":
		default:
			t.Errorf("README.md:%d: nobody runs blocks of %s", from, language)
		}
	}
	if len(steps) < 10 {
		t.Fatalf("README.md has %d steps only: this test looks for the wrong thing", len(steps))
	}
	return steps
}

// settled finds a program that is left running, started the service that is a worker.
var (
	settled = regexp.MustCompile(`(?m)^.* &( +#.*)?$`)
	started = regexp.MustCompile(`(?m)^sudo systemctl .* jobd$`)
)

func commandsOf(t *testing.T, lines []string, from int) (steps []step) {
	t.Helper()
	for i, line := range lines {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{line: from + i + 1, script: "show " + quoted(command), shows: true})
		} else if len(steps) == 0 {
			t.Fatalf("README.md:%d: a block with answers begins with a command: $ …", from+i+1)
		} else {
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// answersIn takes apart what the machine wrote: what a person saw of each step that ended.
func answersIn(written string) map[int]string {
	answers := map[int]string{}
	for _, part := range strings.Split(written, "\x1ebegin ")[1:] {
		number, rest, _ := strings.Cut(part, "\n")
		answer, _, ended := strings.Cut(rest, "\x1eend ")
		if i, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && ended {
			answers[i] = harness.Seen(answer)
		}
	}
	return answers
}

// rewritten is the page with what the commands print now.
func rewritten(lines []string, steps []step, answers map[int]string) []string {
	var page []string
	next := 0
	for i, s := range steps {
		if s.shows {
			page = append(page, lines[next:s.line]...)
			if answers[i] != "" {
				page = append(page, strings.Split(answers[i], "\n")...)
			}
			next = s.line + len(s.want)
		}
	}
	return append(page, lines[next:]...)
}
