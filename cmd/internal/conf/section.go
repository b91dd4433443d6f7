package conf

import (
	"fmt"
	"strings"

	"jobd/cmd/internal/page"
)

// Section is one of the sections [word NAME], whose keys are known, and whose NAME is not.
type Section struct {
	Name string // "" where its keys are registered for the help alone

	set      *Set
	of       *sections
	families []*family
	line     int // of its head in the file; 0: it has none
}

// sections are all sections [word NAME].
type sections struct {
	word string
	open func(*Section)
	any  *Section   // whose keys are those of any such section
	keys []*Setting // likewise
	met  map[string]*Section
}

// AddSections registers the sections [word NAME], whatever NAME is. open gets each when a flag, a
// variable or the file names it for the first time, and registers its keys; and once one without a
// name, whose keys are for the help.
//
// As flags the keys are --word.NAME.key, as variables WORD_NAME_KEY; the case of NAME is kept.
func (s *Set) AddSections(word string, open func(*Section)) {
	of := &sections{word: word, open: open, met: map[string]*Section{}}
	of.any = &Section{set: s, of: of}
	s.sections = append(s.sections, of)
	open(of.any)
}

// Add registers a key of the section, as Set.Add does.
func (s *Section) Add(key, def, usage string, decode Decode) *Setting {
	setting := &Setting{set: s.set, section: s, key: s.Key(key), flag: s.flag(key), def: def, usage: usage, decode: decode, name: key}
	if s.Name == "" {
		s.of.keys = append(s.of.keys, setting)
		return setting
	}
	return s.set.add(setting)
}

// AddFamily registers the keys prefix.NAME of the section, as Set.AddFamily does.
func (s *Section) AddFamily(prefix, usage string, decode func(name, text string) error) {
	s.families = append(s.families, &family{prefix: s.Key(prefix) + ".", usage: usage, decode: decode, of: s, key: prefix + "."})
}

// Key is a key of the section among the keys of all sections: target.mail.timeout.
func (s *Section) Key(key string) string { return s.of.word + "." + s.shownName() + "." + key }

func (s *Section) flag(key string) string { return s.Key(hyphens(key)) }

func (s *Section) shownName() string {
	if s.Name == "" {
		return "NAME"
	}
	return s.Name
}

// String is how the section is written in the file, as messages name it.
func (s *Section) String() string { return fmt.Sprintf("[%s %s]", s.of.word, s.shownName()) }

// Bad notes that something is wrong with the section itself, such as its name.
func (s *Section) Bad(why string) {
	where := fmt.Sprintf("%s:%d: %v", s.set.path, s.line, s)
	if s.line == 0 {
		where = s.firstGiven()
	}
	s.set.errs = append(s.set.errs, fmt.Errorf("%s: %s", where, why))
}

// firstGiven names the place of one of its keys, where the file has no head of the section.
func (s *Section) firstGiven() string {
	for _, setting := range s.set.settings {
		if setting.given && (setting.section == s || setting.family != nil && setting.family.of == s) {
			return s.set.where(setting.key)
		}
	}
	return s.String()
}

// opened is the section of that name, known from now on.
func (o *sections) opened(s *Set, name string) *Section {
	if section := o.met[name]; section != nil {
		return section
	}
	section := &Section{Name: name, set: s, of: o}
	o.met[name] = section
	o.open(section)
	return section
}

// ofSection finds the setting of a section's key, which begins with the prefix and goes on as
// NAME, separator and key; nil if there is none.
func (s *Set) ofSection(text, separator string, written func(string) string) *Setting {
	for _, o := range s.sections {
		if rest, found := strings.CutPrefix(text, written(o.word)+separator); found {
			if name, key := o.split(rest, separator, written); name != "" {
				return o.opened(s, name).find(key)
			}
		}
	}
	return nil
}

// How a key is written in the file, as a flag, and in the name of a variable.

func plainly(key string) string { return key }

func hyphens(key string) string { return strings.ReplaceAll(key, "_", "-") }

func inVariable(key string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
}

// split takes NAME.key apart, where written is how a key stands there, and separator stands before
// it. A family goes before the other keys: the name of its member may be anything.
func (o *sections) split(text, separator string, written func(key string) string) (name, key string) {
	for _, f := range o.any.families {
		name, member, found := strings.Cut(text, separator+written(f.key))
		if found && name != "" && member != "" {
			return name, f.key + member
		}
	}
	for _, setting := range o.keys {
		name, found := strings.CutSuffix(text, separator+written(setting.name))
		if found && name != "" && len(setting.name) > len(key) {
			return name, setting.name
		}
	}
	return "", ""
}

// find is the setting of one of the section's keys; nil if there is none of that name.
func (s *Section) find(key string) *Setting {
	if setting := s.set.byKey[s.Key(key)]; setting != nil {
		return setting
	}
	for _, f := range s.families {
		if setting := s.set.memberOf(f, s.Key(key)); setting != nil {
			return setting
		}
	}
	return nil
}

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
		if rest[0] == '"' || rest[0] == '\'' {
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

// warnUnknown warns of a line that has no key of the section.
func (s *Section) warnUnknown(entry entry) {
	near := suggestion(entry.key, s.of.names(), "")
	if near == "" {
		near = "; known ones are " + strings.Join(s.of.names(), ", ")
	}
	key := " " + entry.key
	if !plainName.MatchString(entry.key) {
		key = ""
	}
	s.set.warnLine(entry.line, "unknown key%s in the section %v is not used%s", key, s, near)
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

// cutHead splits the text behind a [ at its ]. A ] within the quotes of a name is none.
func cutHead(text string) (head, rest string, closed bool) {
	from := 0
	if quote := strings.IndexAny(text, `"'`); quote > 0 && strings.ContainsAny(text[quote-1:quote], " \t") &&
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

// sectionKeys are the keys of the sections [word NAME].
func (s *Set) sectionKeys() (keys []Key) {
	for _, o := range s.sections {
		head := "[" + o.word + " NAME] "
		for _, setting := range o.keys {
			keys = append(keys, Key{head + setting.name, "--" + setting.flag, setting.def, setting.usage})
		}
		for _, f := range o.any.families {
			keys = append(keys, Key{Name: head + f.key + "NAME", Flag: "--" + f.prefix + "NAME", Meaning: f.usage})
		}
	}
	return keys
}

// sectionTerms are the lines of the help about the sections [word NAME].
func (s *Set) sectionTerms() (terms []page.Term) {
	for _, key := range s.sectionKeys() {
		meaning := key.Meaning
		if key.Default != "" {
			meaning = fmt.Sprintf("%s (default: %s)", meaning, key.Default)
		}
		terms = append(terms, page.Term{Name: key.Flag, Meaning: fmt.Sprintf("%s; in the file: %s = …", meaning, key.Name)})
	}
	return terms
}
