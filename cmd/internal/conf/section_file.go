package conf

import (
	"fmt"
	"slices"
	"strings"
)

// headed tells which section [word NAME] the text of a head begins; bad where its name is none, and
// both nil and "" where the head is another one's.
func (s *Set) headed(head string) (section *Section, bad string) {
	word, _, _ := strings.Cut(strings.ReplaceAll(head, "\t", " "), " ")
	rest := strings.TrimSpace(head[len(word):])
	if rest == "" {
		return nil, ""
	}
	for _, o := range s.sections {
		if o.word != word {
			continue
		}
		name, behind := rest, ""
		if strings.ContainsRune("\"'`", rune(rest[0])) {
			if name, behind, bad = quotedName(rest); bad == "" && strings.TrimSpace(behind) != "" {
				bad = "text between the closing quote and the ]; allowed is the whole name in quotes"
			}
		}
		if bad == "" {
			bad = o.judge(name)
		}
		if bad != "" {
			return nil, bad
		}
		return o.opened(s, name), ""
	}
	return nil, ""
}

// judge tells what is wrong with the name of a section. A name that holds a family's prefix would
// make another section's keys of its own.
func (o *sections) judge(name string) (bad string) {
	if strings.Contains(name, "=") {
		return "not a name; allowed is any text without ="
	}
	for _, f := range o.any.families {
		if strings.Contains(name+".", "."+f.key) {
			return fmt.Sprintf("a name with .%s in it can have no section of its own", strings.TrimSuffix(f.key, "."))
		}
	}
	return ""
}

// findHeaded is find, where a line is the head of a section [word NAME] or stands below one.
func (s *Set) findHeaded(entry entry) (setting *Setting, is bool) {
	section, bad := s.headed(entry.section)
	switch {
	case section == nil && bad == "":
		return nil, false
	case entry.key == "" && bad != "":
		s.badLine(entry.line, bad)
	case entry.key == "" && section.line > 0:
		s.badLine(entry.line, fmt.Sprintf("%v: it begins in line %d already; allowed is each section once", section, section.line))
	case entry.key == "":
		section.line = entry.line
	case bad == "":
		setting = section.findIn(entry)
	}
	return setting, true
}

// findIn gives the setting that a line of the section is about; nil after a warning or an error.
func (s *Section) findIn(entry entry) *Setting {
	if entry.alone {
		s.set.badLine(entry.line, fmt.Sprintf("a line without a = in the section %v; allowed is key = value", s))
		return nil
	}
	if setting := s.find(entry.key); setting != nil {
		return setting
	}
	if s.set.isKey(entry.key) && plainName.MatchString(entry.key) {
		s.set.badLine(entry.line, fmt.Sprintf("the key %s stands in the section %v; allowed is the place above all sections", entry.key, s))
		return nil
	}
	s.warnUnknown(entry)
	return nil
}

// warnUnknown warns of a line that has no key of the section. One with a whole number may be a line
// of a section with names, which ended above this one.
func (s *Section) warnUnknown(entry entry) {
	near := suggestion(entry.key, s.of.names(), "")
	if near == "" {
		near = "; known ones are " + strings.Join(s.of.names(), ", ")
		for _, f := range s.set.families {
			if f.section != "" && isWhole(entry.value) {
				near = fmt.Sprintf("; if it is a line of [%s], its place is there", f.section)
			}
		}
	}
	key := " " + entry.key
	if !plainName.MatchString(entry.key) {
		key = ""
	}
	s.set.warnLine(entry.line, "unknown key%s in the section %v is not used%s", key, s, near)
}

// warnOfName warns of a name of a section with names that is a key of sections [word NAME].
func (s *Set) warnOfName(entry entry) {
	for _, o := range s.sections {
		if slices.Contains(o.names(), entry.key) {
			s.warnLine(entry.line, "%s.%s: taken as a name of [%[1]s], not as the key %[2]s, whose place is below %[3]v; put quotes around the name if it is meant", entry.section, entry.key, o.any)
		}
	}
}

// names are the keys of any such section.
func (o *sections) names() (names []string) {
	for _, setting := range o.keys {
		names = append(names, setting.name)
	}
	for _, f := range o.any.families {
		names = append(names, f.key+"NAME")
	}
	return names
}

// nearHead is how the head of a section should be written that is nearly one of these; "": it is not.
func (s *Set) nearHead(head string) string {
	word := head
	if at := strings.IndexAny(head, " \t.:/"); at > 0 {
		word = head[:at]
	}
	for _, o := range s.sections {
		if word != head && editDistance(strings.ToLower(word), o.word) <= likely(len(word)) {
			return "[" + o.word + " NAME]"
		}
	}
	return ""
}

// cutHead splits the text behind a [ at its ]. A ] within the quotes of a name is none.
func cutHead(text string) (head, rest string, closed bool) {
	from := 0
	if quote := strings.IndexAny(text, "\"'`"); quote > 0 && strings.ContainsAny(text[quote-1:quote], " \t") &&
		len(strings.Fields(text[:quote])) == 1 && !strings.Contains(text[:quote], "]") {
		if end := closingQuote(text[quote:], text[quote]); end > 0 {
			from = quote + end
		}
	}
	at := strings.IndexByte(text[from:], ']')
	if at < 0 {
		return "", "", false
	}
	return strings.TrimSpace(text[:from+at]), text[from+at+1:], true
}
