package documents

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var (
	// helped finds a flag in a help, with its meaning, and described a key in a table's row, with its default.
	helped    = regexp.MustCompile(`(?m)^  --(\S+)\s+(.*(?:\n {5,}.*)*)`)
	described = regexp.MustCompile("(?m)^\\| (?:`\\[targets\\]` )?`([^`]+)` \\| (.*?) \\|")
	byDefault = regexp.MustCompile(`\(default: ([^)]*)\)`)
	// sharing finds the sentence of a section whose further keys are those of other tables, and shared the headings of these.
	sharing = regexp.MustCompile("(?m)^The keys of .* are those of `([a-z-]+)`\\.$")
	shared  = regexp.MustCompile(`\]\(#(\w+)\)`)
)

// docs/configuration.md has a table's row for each key that a program's help lists, with the same
// default, and for no other.
func TestKeysOfThePageAreThoseOfTheHelp(t *testing.T) {
	t.Parallel()
	page := read(t, docs("configuration.md"))
	for _, program := range []string{"jobd", "jobd-master", "jobctl"} {
		section := below(page, "## "+program)
		if sentence := sharing.FindStringSubmatch(section); sentence != nil {
			theirs := below(page, "## "+sentence[1])
			for _, heading := range shared.FindAllStringSubmatch(sentence[0], -1) {
				section += below(theirs, "### "+strings.ToUpper(heading[1][:1])+heading[1][1:])
			}
		}
		defaults := map[string]string{}
		for _, row := range described.FindAllStringSubmatch(section, -1) {
			defaults[row[1]] = row[2]
		}
		output := must.Get(exec.Command(harness.Program(t, program), "--help").Output())(t)
		known := map[string]bool{"process": true, "fork": true, "pool": true} // a table of the modes
		for _, flag := range helped.FindAllStringSubmatch(string(output), -1) {
			switch flag[1] {
			case "config", "check", "help", "version":
				continue
			}
			key := strings.TrimPrefix(strings.TrimPrefix(flag[1], "targets."), "target.NAME.")
			key = strings.ReplaceAll(key, "-", "_")
			known[key] = true
			want := byDefault.FindStringSubmatch(strings.Join(strings.Fields(flag[2]), " "))
			if got, has := defaults[key]; !has {
				t.Errorf("docs/configuration.md has no row for the key %s of %s", key, program)
			} else if want != nil && got != want[1] {
				t.Errorf("docs/configuration.md: the default of %s of %s is %s, not %s", key, program, want[1], got)
			}
		}
		if len(known) < 10 {
			t.Errorf("%s --help lists %d keys only: this test looks for the wrong thing", program, len(known))
		}
		for key := range defaults {
			if !known[key] {
				t.Errorf("docs/configuration.md has a row for %s, which %s does not know", key, program)
			}
		}
	}
}

// below is what stands below a heading, to the next one of its level, or above.
func below(page, heading string) string {
	_, section, _ := strings.Cut(page, "\n"+heading+"\n")
	level, _, _ := strings.Cut(heading, " ")
	for ; len(level) > 1; level = level[1:] {
		section, _, _ = strings.Cut(section, "\n"+level+" ")
	}
	return section
}
