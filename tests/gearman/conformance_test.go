package gearman

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// record is a variable that has TestGearmand write what it hears.
const record = "JOBD_RECORD"

func awaitListener(t *testing.T, addr string) {
	t.Helper()
	harness.Until(t, func() string {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return ""
	})
}

// scenarios runs a test for each file.
func scenarios(t *testing.T, test func(t *testing.T, file string, s scenario)) {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(harness.Top(), "testdata", "gearman", "*.txt")))(t)
	if len(files) == 0 {
		t.Fatal("there are no scenarios")
	}
	for _, file := range files {
		s := readScenario(t, file)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, file, s)
		})
	}
}

// The recordings are what gearmand answers.
func TestGearmand(t *testing.T) {
	t.Parallel()
	scenarios(t, func(t *testing.T, file string, s scenario) {
		recording := os.Getenv(record) != ""
		patience := harness.Patience
		if recording {
			patience = 5 * time.Second
		}
		played := s.play(t, gearmand(t), patience, false)
		if recording {
			must.Do(t, os.WriteFile(file, []byte(strings.Join(played, "\n")+"\n"), 0o644))
		} else if diff := gocmp.Diff(s.lines, played); diff != "" {
			t.Errorf("gearmand does not answer as recorded (-recorded +played):\n%s", diff)
		}
	})
}

// jobd answers as gearmand, but for the differences.
func TestJobd(t *testing.T) {
	t.Parallel()
	scenarios(t, func(t *testing.T, _ string, s scenario) {
		wanted := s.differing(t, differences[s.name])
		settings, addr, _ := site(t)
		settings.StartWorker(t)
		played := wanted.play(t, addr, harness.Patience, true)
		if diff := gocmp.Diff(meaning(wanted.lines), meaning(played)); diff != "" {
			t.Errorf("jobd differs (-wanted +played):\n%s", diff)
		}
	})
	for name := range differences {
		if _, err := os.Stat(filepath.Join(harness.Top(), "testdata", "gearman", name+".txt")); err != nil {
			t.Errorf("the differences of %s are those of no scenario: %v", name, err)
		}
	}
}

// differing is the scenario as jobd wants it.
func (s scenario) differing(t *testing.T, differences []difference) scenario {
	t.Helper()
	wanted := scenario{name: s.name}
	for _, step := range s.steps() {
		if len(differences) > 0 && differences[0].step == step[0] {
			if d := differences[0]; !slices.Equal(meaning(step[1:]), meaning(d.answers)) || d.instead != "" {
				differences = differences[1:]
				step = append([]string{cmp.Or(d.instead, step[0])}, d.answers...)
			}
		}
		wanted.lines = append(wanted.lines, step...)
	}
	if len(differences) > 0 {
		t.Errorf("gearmand answers %s as jobd should, or it is not asked that behind what differs before it", differences[0].step)
	}
	return wanted
}

var (
	errorText = regexp.MustCompile(`( < ERROR \S+) ".+"$`)
	lineOf    = regexp.MustCompile(`^\S+ < "`)
)

// meaning is lines without what has no meaning: the words of an ERROR behind its code, the order of the lines of a
// list, and that of a worker's functions.
func meaning(lines []string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		lines[i] = errorText.ReplaceAllString(line, "$1")
		if worker, functions, found := strings.Cut(line, " : "); found && lineOf.MatchString(line) {
			names := strings.Fields(strings.TrimSuffix(functions, `"`))
			slices.Sort(names)
			lines[i] = worker + " : " + strings.Join(names, " ") + `"`
		}
	}
	for begin := 0; begin < len(lines); begin++ {
		end := begin
		for end < len(lines) && lineOf.MatchString(lines[end]) && !strings.HasSuffix(lines[end], ` < "."`) {
			end++
		}
		slices.Sort(lines[begin:end])
		begin = max(begin, end-1)
	}
	return lines
}
