package conf

import (
	"cmp"
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
func (s *Set) warnUnknownSection(e entry) {
	var heads []string
	for _, d := range s.table {
		if d.section() != "" {
			heads = append(heads, d.head())
		}
	}
	name, near := "section", suggestion("["+e.section+"]", heads, "")
	if near != "" {
		name = "section [" + e.section + "]"
	}
	s.warnLine(e, "unknown %s is not used, nor are the lines below it%s", name, near)
}

// launcherKeys begins keys of which a misspelt one is refused: jobs would run with more rights than it says.
const launcherKeys = "launcher."

// warnUnknown warns of a line that has no key of the program, or of the section [word NAME] that has
// a prefix.
func (s *Set) warnUnknown(e entry, prefix string) {
	word, _, _ := strings.Cut(prefix, ".")
	known := s.keysIn(word)
	near, in := suggestion(e.key, known, ""), ""
	if meant, slips := nearestOf(e.key, known); strings.HasPrefix(meant, launcherKeys) && slips <= likely(len(e.key)) {
		s.badLine(e, "unknown key %s%s; a key of the launcher may limit jobs, so it is never ignored", e.key, near)
		return
	}
	isName := plainName.MatchString(e.key)
	if word != "" {
		in = " in the section [" + e.section + "]"
		near = cmp.Or(near, "; known ones are "+strings.Join(known, ", "))
	} else if e.alone || strings.Trim(e.value, "=") == "" && e.value != "" || !isName && near == "" {
		s.warnLine(e, "the line is not a known key, and is not used%s", near)
		return
	}
	key := " " + e.key
	if word != "" && !isName {
		key = ""
	}
	s.warnLine(e, "unknown key%s%s is not used%s", key, in, near)
}

// warnVariable warns of a variable that is nearly one of the program's. Others are nobody's
// business.
func (s *Set) warnVariable(name string) {
	key, distance := nearestOf(strings.TrimPrefix(name, s.program.Prefix), s.variables())
	if distance <= likely(len(name)-len(s.program.Prefix)) {
		s.warn("environment %s: unknown, and not used; the nearest known one is %s", name, s.program.Prefix+key)
	}
}

// variables are the names of variables without names in them, without the program's prefix.
func (s *Set) variables() (names []string) {
	for _, d := range s.table {
		if len(d.parts) == 1 {
			names = append(names, inVariable(d.key))
		}
	}
	return names
}

// likely is how many slips of the pen a name of that length has at most.
func likely(length int) int { return min(2, length/3) }

// keysIn are the keys of the sections [word NAME]; of no word those above all sections.
func (s *Set) keysIn(word string) (keys []string) {
	for _, d := range s.table {
		if d.section() == word && !d.isListed() {
			keys = append(keys, d.within())
		}
	}
	return keys
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
		known = slices.DeleteFunc(slices.Clone(known), func(flag string) bool { return len(flag) == 1 }) // nobody meant one
	}
	if near := suggestion(name, known, dashes); near != "" {
		return fmt.Sprintf("%s %s%s%s", what, dashes, name, near)
	}
	return fmt.Sprintf("%s in place %d of the command line", what, index+1)
}
