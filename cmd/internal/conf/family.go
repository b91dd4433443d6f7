package conf

import "strings"

// family is an open-ended group of keys: all that begin with prefix, or stand in the section.
type family struct {
	prefix  string // with its dot: launcher.env.
	section string // "" where the members stand among the other keys
	usage   string
	decode  func(name, text string) error

	of  *Section // whose family it is; nil: it is nobody's
	key string   // the prefix within that section
}

// AddFamily registers the keys prefix.NAME, whatever NAME is; its case is kept.
// decode gets each member's name and text, and says like a [Decode] what is allowed.
func (s *Set) AddFamily(prefix, usage string, decode func(name, text string) error) {
	s.families = append(s.families, &family{prefix: prefix + ".", usage: usage, decode: decode})
}

// AddSection registers the keys of [section], whatever their names are. As
// flags they are --section.NAME, as variables SECTION_NAME.
func (s *Set) AddSection(section, usage string, decode func(name, text string) error) {
	s.families = append(s.families, &family{prefix: section + ".", section: section, usage: usage, decode: decode})
}

// member gives the setting of a family's key, registered if it is new; nil
// if the key belongs to no family.
func (s *Set) member(key string) *Setting {
	if setting := s.ofSection(key, ".", plainly); setting != nil {
		return setting
	}
	for _, f := range s.families {
		if setting := s.memberOf(f, key); setting != nil {
			return setting
		}
	}
	return nil
}

// memberOf is member, for one family.
func (s *Set) memberOf(f *family, key string) *Setting {
	name, found := strings.CutPrefix(key, f.prefix)
	if !found || name == "" || strings.Contains(name, "=") {
		return nil
	}
	if setting := s.byKey[key]; setting != nil {
		return setting
	}
	return s.add(&Setting{
		set: s, family: f, key: key, flag: key, usage: f.usage, name: name,
		decode: func(text string) error { return f.decode(name, text) },
	})
}

// isMember tells a key with a name that anybody may choose in it, which its flag and variable keep
// as it is spelt, from an ordinary one.
func (s *Setting) isMember() bool { return s.family != nil || s.section != nil }

// isFree tells a member of a family whose values may be anything, such as a password.
func (s *Setting) isFree() bool { return s.family != nil && s.family.section == "" }

// inSection tells the names in a section, which is a family, from all other keys.
func (s *Setting) inSection() bool { return s.family != nil && s.family.section != "" }

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
