package conf

import (
	"fmt"
	"strings"
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
