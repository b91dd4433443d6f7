package conf

import (
	"fmt"
	"io"
	"strings"
)

// parseFile is a ff.ConfigFileParser. It gives set what the file says of known
// keys; of the others it warns. It never fails for what a line says: that is gathered
// like all other mistakes.
func (s *Set) parseFile(r io.Reader, set func(name, value string) error) error {
	defer func() { s.place = place{} }()
	return readINI(r, func(entry entry) error {
		if entry.bad != "" {
			s.errs = append(s.errs, fmt.Errorf("%s:%d: %s", s.path, entry.line, entry.bad))
			return nil
		}
		setting := s.find(entry)
		if setting != nil && s.isRepeated(setting, entry) {
			return nil
		}
		if setting == nil || setting.given && setting.place.line == 0 {
			return nil
		}
		s.place = place{line: entry.line}
		return set(setting.flag, entry.value)
	})
}

// isRepeated notes an error where a name stands in its section for the second time. Of other keys the last one counts.
func (s *Set) isRepeated(setting *Setting, entry entry) bool {
	if !setting.inSection() {
		return false
	}
	first, repeated := s.lines[setting]
	if repeated {
		s.errs = append(s.errs, fmt.Errorf("%s:%d: %s: the same name as in line %d; allowed is each name once", s.path, entry.line, setting.key, first))
		return true
	}
	s.lines[setting] = entry.line
	return false
}

// find gives the setting that a line of the file is about; nil, after a warning,
// for a line about nothing known.
func (s *Set) find(entry entry) *Setting {
	prefix, known := s.sectionPrefix(entry.section)
	switch {
	case !known && entry.key == "":
		s.warnUnknown(entry.line, "section", "["+entry.section+"]", s.sections())
		return nil
	case !known || entry.key == "":
		return nil
	}
	if setting := s.member(prefix + entry.key); setting != nil {
		return setting
	}
	if prefix == "" && s.byKey[entry.key] != nil {
		return s.byKey[entry.key]
	}
	s.warnUnknown(entry.line, "key", entry.key, s.keys())
	return nil
}

func (s *Set) warnUnknown(line int, what, name string, known []string) {
	text := fmt.Sprintf("%s:%d: unknown %s %s is not used", s.path, line, what, name)
	if len(known) > 0 {
		text += Suggestion(name, known, "")
	}
	s.warnings = append(s.warnings, text)
}

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

func (s *Set) sections() []string {
	var sections []string
	for _, f := range s.families {
		if f.section != "" {
			sections = append(sections, "["+f.section+"]")
		}
	}
	return sections
}

// Suggestion is what an error about an unknown name ends with: the known name that was probably meant, behind a prefix; nothing
// where none is near.
func Suggestion(name string, known []string, prefix string) string {
	if near := nearest(name, known); near != "" {
		return "; the nearest known one is " + prefix + near
	}
	return ""
}

// nearest is the known name that takes the fewest single-character changes to reach from name; of equal ones the first in the
// alphabet. It is "" where that takes more than two and more than a third of the name.
func nearest(name string, known []string) string {
	best, bestDistance := "", -1
	for _, candidate := range known {
		distance := editDistance(strings.ToLower(name), strings.ToLower(candidate))
		if bestDistance < 0 || distance < bestDistance || distance == bestDistance && candidate < best {
			best, bestDistance = candidate, distance
		}
	}
	if bestDistance > max(2, len(name)/3) || bestDistance >= len(name) {
		return ""
	}
	return best
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
