package conf

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// plainName matches the names that a warning may repeat. What stands in the place of a name may be
// part of a password that goes on in the next line.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,40}$`)

// warnUnknownSection warns of a section that the program does not have. It repeats the name only if
// that is nearly the name of one.
func (s *Set) warnUnknownSection(entry entry) {
	name, near := "section", suggestion("["+entry.section+"]", s.heads(), "")
	if near != "" {
		name = "section [" + entry.section + "]"
	}
	s.warnLine(entry.line, "unknown %s is not used, nor is what stands below it%s", name, near)
}

// warnUnknownKey warns of a line that has no key of the program.
func (s *Set) warnUnknownKey(entry entry) {
	near := suggestion(entry.key, s.keys(), "")
	isPair := !entry.alone && strings.TrimLeft(entry.value, "=") != ""
	if isPair && (near != "" || plainName.MatchString(entry.key)) {
		s.warnLine(entry.line, "unknown key %s is not used%s", entry.key, near)
		return
	}
	s.warnLine(entry.line, "the line is no known key, and not used%s", near)
}

// warnVariable warns of a variable that is nearly one of the program's. Others are nobody's
// business.
func (s *Set) warnVariable(name string) {
	var known []string
	for key, setting := range s.byKey {
		if !setting.isMember() {
			known = append(known, s.variable(key))
		}
	}
	near, distance := nearestOf(name, known)
	if distance <= likely(len(name)-len(s.program.Prefix)) {
		s.warnings = append(s.warnings, fmt.Sprintf("environment %s: unknown, and not used; the nearest known one is %s", name, near))
	}
}

// likely is how many slips of the pen a name of that length has at most.
func likely(length int) int { return min(2, length/3) }

// keys are the names that a line of the file may begin with.
func (s *Set) keys() []string {
	var keys []string
	for key, setting := range s.byKey {
		if !setting.isMember() {
			keys = append(keys, key)
		}
	}
	for _, f := range s.families {
		if f.section == "" {
			keys = append(keys, f.prefix+"NAME")
		}
	}
	return keys
}

// heads are the heads of sections that the file may have.
func (s *Set) heads() (heads []string) {
	for _, f := range s.families {
		if f.section != "" {
			heads = append(heads, "["+f.section+"]")
		}
	}
	for _, o := range s.sections {
		heads = append(heads, o.any.String())
	}
	return heads
}

// suggestion is what an error about an unknown name ends with: the known name that was probably
// meant, behind a prefix; nothing where none is near.
func suggestion(name string, known []string, prefix string) string {
	if near := Nearest(name, known); near != "" {
		return "; the nearest known one is " + prefix + near
	}
	return ""
}

// Nearest is the known name that takes the fewest single-character changes to reach from name; of
// equal ones the first in the alphabet. It is "" where that takes more than two and more than a
// third of the name.
func Nearest(name string, known []string) string {
	best, distance := nearestOf(name, known)
	if distance > max(2, len(name)/3) || distance >= len(name) {
		return ""
	}
	return best
}

// nearestOf is Nearest with the number of changes, however many they are.
func nearestOf(name string, known []string) (best string, changes int) {
	changes = math.MaxInt
	for _, candidate := range known {
		distance := editDistance(strings.ToLower(name), strings.ToLower(candidate))
		if distance < changes || distance == changes && candidate < best {
			best, changes = candidate, distance
		}
	}
	return best, changes
}

// editDistance is the Levenshtein distance of two names, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Unexpected describes the word of the command line with that index, which is no known flag or
// command: what sort of thing it would be, and what was probably meant. The word may be a password,
// so it is repeated only where it is nearly a known one; else only its place is given.
func Unexpected(what string, args []string, index int, known []string) string {
	dashes, name := "", args[index]
	if bare := strings.TrimLeft(name, "-"); bare != name {
		dashes = "--"
		name, _, _ = strings.Cut(bare, "=")
	}
	if near := suggestion(name, known, dashes); near != "" {
		return fmt.Sprintf("%s %s%s%s", what, dashes, name, near)
	}
	return fmt.Sprintf("%s in place %d of the command line", what, index+1)
}

// indexOfFlag is where in args a flag of that name stands; -1 if nowhere.
func indexOfFlag(args []string, name string) int {
	return slices.IndexFunc(args, func(arg string) bool {
		rest, isFlag := strings.CutPrefix(arg, "-")
		rest, _, _ = strings.Cut(strings.TrimPrefix(rest, "-"), "=")
		return isFlag && rest == name
	})
}
