package conf

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// parseFile is a ff.ConfigFileParser. It gives set what the file says of known
// keys; of the others it warns. It never fails for what a line says: that is gathered
// like all other mistakes.
func (s *Set) parseFile(r io.Reader, set func(name, value string) error) error {
	defer func() { s.place = place{} }()
	return readINI(r, func(entry entry) error {
		if entry.bad != "" {
			s.badLine(entry.line, entry.bad)
			return nil
		}
		setting := s.find(entry)
		if setting != nil && s.isRepeated(setting, entry) {
			return nil
		}
		if setting == nil || setting.given && setting.place.line == 0 {
			return nil
		}
		s.warnOdd(setting, entry)
		setting.plain = !entry.quoted
		s.place = place{line: entry.line}
		return set(setting.flag, entry.value)
	})
}

// badLine notes an error about a line. An error about the whole file is noted once.
func (s *Set) badLine(line int, bad string) {
	if !s.told[bad] {
		s.errs = append(s.errs, fmt.Errorf("%s:%d: %s", s.path, line, bad))
	}
	s.told[bad] = strings.HasPrefix(bad, "a NUL byte")
}

// warnLine adds a warning about a line.
func (s *Set) warnLine(line int, format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf("%s:%d: ", s.path, line)+fmt.Sprintf(format, args...))
}

// warnOdd warns of what is odd about a value as it is written.
func (s *Set) warnOdd(setting *Setting, entry entry) {
	for _, odd := range entry.odd {
		if odd.quotes && setting.ownQuotes || odd.secrets && !setting.isSecret() {
			continue
		}
		s.warnLine(entry.line, "%s: %s", setting.key, odd.text)
	}
	if !entry.quoted && strings.ContainsFunc(entry.key, unicode.IsControl) {
		s.warnLine(entry.line, "%q: there is a tab or another control character within the name; it counts", setting.key)
	}
}

// spot is a key in a section.
type spot struct {
	section string
	setting *Setting
}

// earlier is where a key stood in the file before, and with what value.
type earlier struct {
	line  int
	value string
}

// isRepeated notes an error where a name stands in its section for the second time. Of other keys
// the last one counts, which is worth a warning where the values differ.
func (s *Set) isRepeated(setting *Setting, entry entry) bool {
	at := spot{entry.section, setting}
	first, repeated := s.lines[at]
	if repeated && setting.inSection() {
		s.errs = append(s.errs, fmt.Errorf("%s:%d: %s: the same name as in line %d; allowed is each name once", s.path, entry.line, setting.key, first.line))
		return true
	}
	if repeated && first.value != entry.value {
		s.warnLine(entry.line, "%s: given in line %d too, with another value; the last one counts, delete the other", setting.key, first.line)
	}
	s.lines[at] = earlier{entry.line, entry.value}
	return false
}

// find gives the setting that a line of the file is about; nil, after a warning or an error,
// for a line about nothing known.
func (s *Set) find(entry entry) *Setting {
	if setting, is := s.findHeaded(entry); is {
		return setting
	}
	prefix, known := s.sectionPrefix(entry.section)
	if is, unused := s.ofProfile(entry); is {
		if known = true; unused {
			return nil
		}
	}
	switch {
	case !known && entry.key == "":
		s.warnUnknownSection(entry)
		return nil
	case !known || entry.key == "":
		return nil
	case prefix != "" && s.isMisplaced(entry):
		return nil
	}
	if entry.alone && strings.ContainsAny(entry.key, " \t:") && s.isKey(entry.key) {
		s.warnLine(entry.line, "there is no = behind the key, so the line is not used; allowed is key = value")
		return nil
	}
	if setting := s.member(prefix + entry.key); setting != nil {
		if entry.alone && setting.inSection() {
			s.badLine(entry.line, "a name of a section without a =; allowed is name = value")
			return nil
		}
		return setting
	}
	if prefix == "" && s.byKey[entry.key] != nil {
		return s.byKey[entry.key]
	}
	s.warnUnknownKey(entry)
	return nil
}

// isMisplaced notes an error where a line of a section is no name with a value: a key of the program
// that stands below the section's head by mistake, or no pair at all. Such a name may be given in
// quotes.
func (s *Set) isMisplaced(entry entry) bool {
	isKey := s.isKey(entry.key)
	switch {
	case entry.quoted && !entry.alone:
		return false
	case !entry.alone && !isKey:
		return false
	case isKey && plainName.MatchString(entry.key):
		s.badLine(entry.line, fmt.Sprintf("the key %s stands in the section [%s]; allowed is the place above it%s", entry.key, entry.section, orQuoted(entry)))
	default:
		s.badLine(entry.line, fmt.Sprintf("a line without a = in the section [%s]; allowed is name = value", entry.section))
	}
	return true
}

// orQuoted is what else is allowed of a key in a section, where it could be a name there.
func orQuoted(entry entry) string {
	if entry.alone || !isWhole(entry.value) {
		return ""
	}
	return fmt.Sprintf(", or quotes around it where it is a name of [%s]", entry.section)
}

// isKey tells whether a line of no section may begin with the key.
func (s *Set) isKey(key string) bool {
	if setting := s.byKey[key]; setting != nil {
		return !setting.inSection()
	}
	for _, f := range s.families {
		if f.section == "" && strings.HasPrefix(key, f.prefix) {
			return true
		}
	}
	return false
}

func isWhole(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}
