package conf

import "strings"

// family is an open-ended group of keys: all that begin with prefix, or stand in the section.
type family struct {
	prefix  string // with its dot: launcher.env.
	section string // "" where the members stand among the other keys
	usage   string
	decode  func(name, text string) error
}

// AddFamily registers the keys prefix.NAME, whatever NAME is; its case is kept.
// decode gets each member's name and text, and says like a [Decode] what is allowed.
func (s *Set) AddFamily(prefix, usage string, decode func(name, text string) error) {
	s.families = append(s.families, family{prefix: prefix + ".", usage: usage, decode: decode})
}

// AddSection registers the keys of [section], whatever their names are. As
// flags they are --section.NAME, as variables SECTION_NAME.
func (s *Set) AddSection(section, usage string, decode func(name, text string) error) {
	s.families = append(s.families, family{prefix: section + ".", section: section, usage: usage, decode: decode})
}

// member gives the setting of a family's key, registered if it is new; nil
// if the key belongs to no family.
func (s *Set) member(key string) *Setting {
	for _, f := range s.families {
		name, found := strings.CutPrefix(key, f.prefix)
		if !found || name == "" || strings.Contains(name, "=") {
			continue
		}
		if setting := s.byKey[key]; setting != nil {
			return setting
		}
		return s.add(&Setting{
			set: s, key: key, flag: key, usage: f.usage,
			decode: func(text string) error { return f.decode(name, text) },
		})
	}
	return nil
}

// isMember tells a family's key, whose flag and variable keep its spelling,
// from an ordinary one.
func (s *Setting) isMember() bool {
	for _, f := range s.set.families {
		if strings.HasPrefix(s.key, f.prefix) {
			return true
		}
	}
	return false
}

// inSection tells the keys of a section from all others.
func (s *Setting) inSection() bool {
	for _, f := range s.set.families {
		if f.section != "" && strings.HasPrefix(s.key, f.prefix) {
			return true
		}
	}
	return false
}

// sectionPrefix is the prefix of the keys in a section.
func (s *Set) sectionPrefix(section string) (prefix string, known bool) {
	if section == "" {
		return "", true
	}
	for _, f := range s.families {
		if f.section == section {
			return f.prefix, true
		}
	}
	return "", false
}
