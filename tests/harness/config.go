package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

// Settings are the keys of a configuration file. Keys that begin with a section, as in
// "[targets] a" or "[target a] attempts", stand in that section.
type Settings map[string]string

const targetPrefix = "[targets] "

// Targets gives settings with a concurrency for each target.
func Targets(concurrency map[string]int) Settings {
	s := Settings{}
	for name, n := range concurrency {
		s[targetPrefix+name] = strconv.Itoa(n)
	}
	return s
}

// With is the settings with others laid over them; the receiver is left as it is.
func (s Settings) With(others ...Settings) Settings {
	merged := maps.Clone(s)
	for _, other := range others {
		maps.Copy(merged, other)
	}
	return merged
}

// Without is the settings less some keys; the receiver is left as it is.
func (s Settings) Without(keys ...string) Settings {
	fewer := maps.Clone(s)
	for _, key := range keys {
		delete(fewer, key)
	}
	return fewer
}

// String is the settings as a configuration file.
func (s Settings) String() string {
	var top strings.Builder
	sections := map[string]*strings.Builder{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		section, name, isIn := strings.Cut(key, "] ")
		if !isIn || key[0] != '[' {
			fmt.Fprintf(&top, "%s = %s\n", key, iniQuoted(s[key]))
			continue
		}
		if sections[section] == nil {
			sections[section] = &strings.Builder{}
		}
		value := s[key]
		if section+"] " != targetPrefix {
			value = iniQuoted(value)
		}
		fmt.Fprintf(sections[section], "%s = %s\n", name, value)
	}
	for _, section := range slices.Backward(slices.Sorted(maps.Keys(sections))) { // [targets] before [target NAME]
		fmt.Fprintf(&top, "\n%s]\n%s", section, sections[section])
	}
	return top.String()
}

// iniQuoted is a value as it stands in a configuration file, whatever it holds.
func iniQuoted(value string) string {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings always encode
	}
	return strings.TrimSpace(quoted.String())
}

// Addr is where a daemon with these settings listens.
func (s Settings) Addr() string { return net.JoinHostPort(s["host"], s["port"]) }

// Write writes the settings as a file of its own.
func (s Settings) Write(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobd.conf")
	if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
	return file
}

// StartWorker starts jobd with the settings and waits until it answers.
func (s Settings) StartWorker(t testing.TB) *Daemon {
	t.Helper()
	return Launch(t, "jobd", s.Write(t), s.Addr()).Ready(t)
}

// Refused starts jobd with the settings and gives the exit code and the words that it ends with.
func (s Settings) Refused(t testing.TB) (code int, output string) {
	t.Helper()
	d := Launch(t, "jobd", s.Write(t), s.Addr())
	return d.ExitCode(t), d.Output()
}

// Worker is the settings of a jobd on the database, with a journal and a port of its own.
func (db *Database) Worker(t testing.TB, name, launcher string, targets map[string]int) Settings {
	t.Helper()
	return db.Settings().With(Targets(targets), Settings{
		"host": "127.0.0.1", "port": FreePort(t),
		"name":              name,
		"launcher":          launcher,
		"journal_dir":       filepath.Join(t.TempDir(), "journal"),
		"log_level_console": "info",
	})
}

// StartMaster starts jobd-master with settings laid over the least it needs.
func StartMaster(t testing.TB, others ...Settings) *Daemon {
	t.Helper()
	s := Settings{"host": "127.0.0.1", "port": FreePort(t), "log_level_console": "info"}.With(others...)
	return Launch(t, "jobd-master", s.Write(t), s.Addr()).Ready(t)
}

// MasterOf is the settings that make a worker register with a master.
func MasterOf(master *Daemon) Settings {
	host, port, _ := strings.Cut(master.Addr, ":")
	return Settings{"master_host": host, "master_port": port, "master_reconnect_timeout": "1"}
}

// FreePort is a port for a daemon: nobody has it, and nobody else gets it, see freeport.
func FreePort(t testing.TB) string {
	t.Helper()
	port := must.Get(freeport.Take())(t)
	return strconv.Itoa(port)
}

// masks are what differs from run to run. Each is replaced by a word, on the page and in what was
// printed, so that the rest can be compared.
var masks = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?Z?`), "TIME"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d(\.\d+)?)?\b`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`(?i)\b(pid|process)([ :=]+)\d+`), "${1}${2}PID"},
	{regexp.MustCompile(`@[0-9a-z]{9}\b`), "@TOKEN"},
	{regexp.MustCompile(`@[0-9a-z]{4}\b`), "@MARK"},
	{regexp.MustCompile(`\b[0-9a-f]{8,64}(-[0-9a-f-]+)?\b…?`), "HASH"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(B|[KMG]i?B)\b`), "SIZE"},
	{regexp.MustCompile(`\b(\d+(\.\d+)? ?(ns|µs|ms|s|min|m|h|d))+\b`), "LONG"},
	{regexp.MustCompile(`\| \d+ +\| (\d+) +\| TIME`), "| PID | $1 | TIME"}, // of ps
	{regexp.MustCompile(`(?m)^(TIME +)\d+( +job \d)`), "${1}SEQ$2"},        // of journal log
	{regexp.MustCompile(`\b\d+\.\d+\.\d+-MariaDB[^ ,]*`), "MARIADB"},
	{regexp.MustCompile(`up to event \d+`), "up to event SEQ"},
	{regexp.MustCompile(`verified: \d+ events`), "verified: SOME events"},
	{regexp.MustCompile(`"(at|since|startedAt|time|pid|cpu|memory|rss|heapTotal|heapUsed|external|bytes|started|finished|created|oldest)":\d+`), `"$1":NUMBER`},
}

var (
	blanks    = regexp.MustCompile(`[ \t]+`)
	dashes    = regexp.MustCompile(`-{2,}`)
	rubbedOut = regexp.MustCompile(`[^\n]*\r\x1b\[K`) // a line that jobctl itself has taken back
	colour    = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)
)

// Masked is a text without what differs from run to run, and without the width of columns.
func Masked(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.word)
	}
	text = blanks.ReplaceAllString(dashes.ReplaceAllString(text, "-"), " ")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// Seen is what a person sees of what was written to a terminal: no colours, and no line that was
// taken back.
func Seen(written string) string {
	written = rubbedOut.ReplaceAllString(written, "")
	written = strings.ReplaceAll(colour.ReplaceAllString(written, ""), "\r\n", "\n")
	return strings.Trim(strings.ReplaceAll(written, "\x00", ""), "\n")
}

// Numbers is a table with the one column n and the numbers 1 to count, to stand behind FROM. Any
// server has it, MariaDB (whose own is called seq_1_to_…), MySQL and SQLite.
func Numbers(count int) string {
	const digit = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL " +
		"SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	sum, digits := []string{"1"}, []string{"(SELECT 0 AS d) AS d0"}
	for weight := 1; weight < count; weight *= 10 {
		name := fmt.Sprintf("d%d", len(digits))
		sum = append(sum, fmt.Sprintf("%d * %s.d", weight, name))
		digits = append(digits, digit+" AS "+name)
	}
	return fmt.Sprintf("(SELECT n FROM (SELECT %s AS n FROM %s) AS every WHERE n <= %d) AS numbers",
		strings.Join(sum, " + "), strings.Join(digits, " CROSS JOIN "), count)
}

// Armed builds the daemons that kill themselves at failpoints, or hang, once a process and one process
// at a time, and gives the path of jobd. They are the binaries of their packages' tests.
func Armed(t testing.TB) string {
	t.Helper()
	return armed(t, "jobd")
}

// ArmedMaster gives that of jobd-master: the variable TEST_HANGS says which of its loops hangs, and
// at the how manieth piece of its work, as in "workers:2".
func ArmedMaster(t testing.TB) string {
	t.Helper()
	return armed(t, "jobd-master")
}

func armed(t testing.TB, program string) string {
	t.Helper()
	must.Do(t, buildArmed())
	return filepath.Join(armedFolder(), program)
}

func armedFolder() string { return filepath.Join(Top(), "bin", "failpoints") }

var buildArmed = sync.OnceValue(func() error {
	if os.Getenv(built) != "" {
		return nil
	}
	if err := os.MkdirAll(armedFolder(), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(armedFolder(), ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	for _, program := range []string{"jobd", "jobd-master"} {
		build := exec.Command("go", "test", "-c", "-trimpath", "-buildvcs=false", "-o", filepath.Join(armedFolder(), program), "./cmd/"+program)
		build.Dir = Top()
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s with failpoints: %w: %s", program, err, output)
		}
	}
	return nil
})

// Arm makes the next armed workers with this journal kill themselves at the nth time that they reach
// a point.
func Arm(t testing.TB, journalDir, point string, nth int) {
	t.Helper()
	must.Do(t, os.MkdirAll(journalDir, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(journalDir, "failpoint"), fmt.Appendf(nil, "%s:%d", point, nth), 0o600))
}

// Disarm takes that back.
func Disarm(t testing.TB, journalDir string) {
	t.Helper()
	must.Do(t, os.Remove(filepath.Join(journalDir, "failpoint")))
}
