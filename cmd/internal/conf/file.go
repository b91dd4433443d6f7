package conf

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// mostBytes is more than anybody writes: a file that is longer is another sort of file.
const mostBytes = 16 << 20

// parseFile is a ff.ConfigFileParser. It takes what the file says of known keys; of the others it warns. What is
// wrong with a line is gathered like all other mistakes.
func (s *Set) parseFile(r io.Reader, _ func(name, value string) error) error {
	defer func() { s.place = place{} }()
	content, err := io.ReadAll(io.LimitReader(r, mostBytes+1))
	if err == nil && len(content) > mostBytes {
		err = fmt.Errorf("it is longer than %d MiB; allowed: a file of lines: key = value", mostBytes>>20)
	}
	for e := range entries(string(content)) {
		if e.bad != "" {
			s.badLine(e, "%s", e.bad)
			continue
		}
		setting := s.find(e)
		if setting == nil || s.isRepeated(setting, e) || setting.given && setting.place.line == 0 {
			continue
		}
		s.warnOdd(setting, e)
		s.place = place{line: e.line}
		_ = setting.Set(e.value)
	}
	return err
}

// badLine notes an error about a line.
func (s *Set) badLine(e entry, format string, args ...any) {
	s.bad("%s:%d: %s", s.path, e.line, fmt.Sprintf(format, args...))
}

// warnLine adds a warning about a line.
func (s *Set) warnLine(e entry, format string, args ...any) {
	s.warn("%s:%d: %s", s.path, e.line, fmt.Sprintf(format, args...))
}

// warnOdd warns of what is odd about a value as it is written.
func (s *Set) warnOdd(setting *Setting, e entry) {
	if e.odd != "" && !(e.mayBeMeant && setting.ownQuotes) && !(e.ofSecrets && !setting.isSecret()) {
		s.warnLine(e, "%s: %s", setting.key, e.odd)
	}
	if !e.quoted && strings.ContainsFunc(e.key, unicode.IsControl) {
		s.warnLine(e, "%q: there is a tab or another control character within the name, as a part of it", setting.key)
	}
}

// isRepeated notes an error where a name stands in its section for the second time. Of other keys
// the last one counts, which is worth a warning where the values differ.
func (s *Set) isRepeated(setting *Setting, e entry) bool {
	at := e.section + "\n" + setting.key
	first, repeated := s.lines[at]
	if repeated && setting.isListed() {
		s.badLine(e, "%s: the same name as in line %d; allowed: each name once", setting.key, first.line)
		return true
	}
	if repeated && first.value != e.value {
		s.warnLine(e, "%s: given in line %d too, with another value; the last one counts, delete the other", setting.key, first.line)
	}
	s.lines[at] = e
	return false
}

// find gives the setting that a line of the file is about; nil, after a warning or an error,
// for a line about nothing known.
func (s *Set) find(e entry) *Setting {
	prefix, listed, known := "", false, true
	if s.profiles != nil {
		if s.isOfAnother(e) {
			return nil
		}
	} else if prefix, listed, known = s.head(e); !known || e.key == "" {
		return nil
	}
	inOther := prefix != "" && s.isKey(e.key) && plainName.MatchString(e.key)
	if listed && inOther && !e.quoted {
		quoted := ""
		if _, err := strconv.Atoi(e.value); err == nil && !e.alone {
			quoted = fmt.Sprintf(", or quotes around it where it is a name of [%s]", e.section)
		}
		s.badLine(e, "the key %s stands in the section [%s]; allowed: the place above it%s", e.key, e.section, quoted)
		return nil
	}
	var setting *Setting
	if declared, names := s.match(prefix+e.key, plainly); declared != nil &&
		(listed || prefix == "" || len(names) > 0 && prefix == declared.parts[0]+names[0]+".") { // else it is another section's
		setting = s.lookup(prefix+e.key, plainly)
	}
	switch {
	case setting == nil && inOther && !e.alone:
		s.badLine(e, "the key %s stands in the section [%s]; allowed: the place above all sections", e.key, e.section)
	case e.alone && prefix != "":
		s.badLine(e, "a line without a = in the section [%s]; allowed: %s = value", e.section, map[bool]string{true: "name", false: "key"}[listed])
	case e.alone && setting != nil && setting.isListed():
		s.badLine(e, "a name of a section without a =; allowed: name = value")
	case setting == nil || e.alone && strings.ContainsAny(e.key, " \t:"):
		s.warnUnknown(e, prefix)
	default:
		return setting
	}
	return nil
}

// isKey tells whether a line of no section may begin with the key.
func (s *Set) isKey(key string) bool {
	declared, _ := s.match(key, plainly)
	return declared != nil && declared.section() == ""
}

// head gives the beginning of the keys of the section that a line is in, or begins, and whether any
// name may stand there. What is wrong with the section is noted where it begins.
func (s *Set) head(e entry) (prefix string, listed, known bool) {
	if e.section == "" {
		return "", false, true
	}
	word, _, _ := strings.Cut(strings.ReplaceAll(e.section, "\t", " "), " ")
	rest := strings.TrimSpace(e.section[len(word):])
	of := slices.IndexFunc(s.table, func(d *Setting) bool { return d.section() == word && d.isListed() == (rest == "") })
	switch {
	case of >= 0 && rest == "":
		return word + ".", true, true
	case of < 0:
		if e.key == "" {
			s.warnUnknownSection(e)
		}
		return "", false, false
	}
	name, bad := s.sectionName(word, rest)
	if bad != "" {
		if e.key == "" {
			s.badLine(e, "%s", bad)
		}
		return "", false, false
	}
	s.open(word, name)
	prefix = word + "." + name + "."
	if e.key == "" {
		if line := s.heads[prefix]; line > 0 {
			s.badLine(e, "[%s %s]: it begins in line %d already; allowed: each section once", word, name, line)
		} else {
			s.heads[prefix] = e.line
		}
	}
	return prefix, false, true
}

// sectionName is the NAME of a head [word NAME], or what is wrong with it. One that has in it what
// stands before a name of any form would make another section's keys of its own.
func (s *Set) sectionName(word, text string) (name, bad string) {
	name, behind := text, ""
	if text[0] == '"' || text[0] == '\'' {
		if name, behind, bad = quotedName(text); bad == "" && strings.TrimSpace(behind) != "" {
			bad = "text between the closing quote and the ]; allowed: the whole name in quotes"
		}
	}
	if bad == "" && strings.Contains(name, "=") {
		bad = "not a name; allowed: any text without ="
	}
	for _, d := range s.table {
		if bad == "" && d.section() == word && d.isFree() && strings.Contains(name+".", d.parts[1]) {
			bad = fmt.Sprintf("a name with %s in it can have no section of its own", strings.TrimSuffix(d.parts[1], "."))
		}
	}
	return name, bad
}

// profiles are the sections of a file of which a run may choose one: [prod], and so on.
type profiles struct {
	own    []string // keys that count only from the chosen section, or as flags
	chosen string   // "": none, and the keys above all sections count
	names  []string // of the sections that the file has
	secret string   // the first key in a section that was not chosen whose value is a password
}

// AddProfiles makes each section of the file a profile, which may have every key. Of a profile that
// is chosen the own keys are its alone: what the environment and the keys above all sections say of
// them is about something else. All other keys above the sections count where the section has none.
func (s *Set) AddProfiles(own ...string) { s.profiles = &profiles{own: own} }

// Choose chooses a profile, before anything is read.
func (s *Set) Choose(profile string) { s.profiles.chosen = profile }

// Profile is the one that was chosen; "" if none was.
func (s *Set) Profile() string {
	if s.profiles == nil {
		return ""
	}
	return s.profiles.chosen
}

// isOwn tells whether the chosen profile alone says what key is.
func (s *Set) isOwn(key string) bool {
	return s.Profile() != "" && slices.Contains(s.profiles.own, key)
}

// isOfAnother tells whether a line of the file is not to be used: it is the head of a profile, or of a
// profile that was not chosen, or says above all of them what the chosen one alone says.
func (s *Set) isOfAnother(e entry) bool {
	p := s.profiles
	if e.key == "" {
		if !slices.Contains(p.names, e.section) {
			p.names = append(p.names, e.section)
		}
		return true
	}
	setting, _ := s.match(e.key, plainly)
	unused := e.section != "" && e.section != p.chosen || e.section == "" && setting != nil && s.isOwn(setting.key)
	if unused && setting != nil && setting.isSecret() && e.value != "" && p.secret == "" {
		p.secret = strings.TrimPrefix(e.section+"."+setting.key, ".")
	}
	return unused
}

// checkProfile notes an error where the file does not have the profile that was chosen.
func (s *Set) checkProfile() {
	p := s.profiles
	if s.Profile() == "" || slices.Contains(p.names, p.chosen) || s.absent {
		return
	}
	known := "it has none; a profile is a section such as [prod], with the keys " + strings.Join(p.own, ", ")
	if len(p.names) > 0 {
		known = "there are: @" + strings.Join(p.names, ", @")
	}
	where := s.path
	if s.missing {
		where += " (no such file now)"
	}
	s.bad("there is no profile @%s in %s%s; %s", p.chosen, where, suggestion(p.chosen, p.names, "@"), known)
}
