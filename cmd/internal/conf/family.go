package conf

import (
	"fmt"
	"slices"
	"strings"
)

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

// Profiles are the names of those that the file has.
func (s *Set) Profiles() []string {
	if s.profiles == nil {
		return nil
	}
	return s.profiles.names
}

// isOwn tells whether the chosen profile alone says what key is.
func (s *Set) isOwn(key string) bool {
	return s.Profile() != "" && slices.Contains(s.profiles.own, key)
}

// ofProfile tells whether a line of the file is of a profile, or above them, and whether it is not
// to be used: it is of another profile, or the chosen one alone says what it is about. The head of a
// section is no line to be used.
func (s *Set) ofProfile(entry entry) (is, unused bool) {
	p := s.profiles
	if p == nil {
		return false, false
	}
	if entry.key == "" {
		if !slices.Contains(p.names, entry.section) {
			p.names = append(p.names, entry.section)
		}
		return true, true
	}
	setting := s.byKey[entry.key]
	unused = entry.section != "" && entry.section != p.chosen || entry.section == "" && setting != nil && s.isOwn(setting.key)
	if unused && setting != nil && setting.isSecret() && entry.value != "" && p.secret == "" {
		p.secret = strings.TrimPrefix(entry.section+"."+setting.key, ".")
	}
	return true, unused
}

// checkProfile notes an error where the file does not have the profile that was chosen.
func (s *Set) checkProfile() {
	p := s.profiles
	if p == nil || p.chosen == "" || slices.Contains(p.names, p.chosen) || s.absent != nil {
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
	s.errs = append(s.errs, fmt.Errorf("there is no profile @%s in %s%s; %s", p.chosen, where, suggestion(p.chosen, p.names, "@"), known))
}

// FromFile tells whether key got its value from the file.
func (s *Set) FromFile(key string) bool {
	setting := s.byKey[key]
	return setting.given && setting.place.line > 0
}
