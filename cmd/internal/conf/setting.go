package conf

import (
	"fmt"
	"strings"
)

// Setting is one key and its value. It implements flag.Value, and takes
// any text: whether it can be decoded is told later, with everything else.
type Setting struct {
	set    *Set
	key    string
	flag   string
	def    string
	usage  string
	toggle bool
	decode Decode

	text  string
	given bool
	place place
}

// place is where a value was given: in a line of the file, in a variable, or
// else on the command line.
type place struct {
	line     int
	variable string
}

// Switch makes the key's flag one that needs no value.
func (s *Setting) Switch() *Setting {
	s.toggle = true
	return s
}

// Alias gives the key a second name.
func (s *Setting) Alias(key string) *Setting {
	s.set.byKey[key] = s
	s.set.flags.Var(s, strings.ReplaceAll(key, "_", "-"), "the same as --"+s.flag)
	return s
}

// IsBoolFlag tells package flag whether the flag needs no value.
func (s *Setting) IsBoolFlag() bool { return s.toggle }

// String implements flag.Value. It never tells the value, which may be secret.
func (s *Setting) String() string { return "" }

// Set implements flag.Value. Within one source the last value counts.
func (s *Setting) Set(text string) error {
	s.text, s.given, s.place = text, true, s.set.place
	return nil
}

// finish decodes the value, or the default.
func (s *Setting) finish() {
	text := s.text
	if !s.given {
		text = s.def
		if text == "" {
			return
		}
	}
	if allowed := s.decode(text); allowed != nil {
		s.set.Bad(s.key, fmt.Sprintf("%q is not allowed; allowed is %v", text, allowed))
	}
}

// where names the key and the place of its value.
func (s *Set) where(key string) string {
	setting := s.byKey[key]
	switch {
	case !setting.given:
		return key
	case setting.place.variable != "":
		return fmt.Sprintf("environment %s: %s", setting.place.variable, key)
	case setting.place.line > 0:
		return fmt.Sprintf("%s:%d: %s", s.path, setting.place.line, key)
	default:
		return fmt.Sprintf("flag --%s: %s", setting.flag, key)
	}
}

// whereToGive says how a value for key can be given.
func (s *Set) whereToGive(key string) string {
	ways := fmt.Sprintf("as --%s or as %s", s.byKey[key].flag, s.variable(key))
	switch {
	case s.path == "":
		return ways
	case s.missing:
		return fmt.Sprintf("in %s (no such file now), %s", s.path, ways)
	default:
		return fmt.Sprintf("in %s, %s", s.path, ways)
	}
}

// variable is the environment variable of key.
func (s *Set) variable(key string) string {
	return s.program.Prefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
}

// byVariable finds the setting of an environment variable; nil if there is none.
func (s *Set) byVariable(name string) *Setting {
	for key, setting := range s.byKey {
		if s.variable(key) == name && !setting.isMember() {
			return setting
		}
	}
	for _, f := range s.families {
		if member, found := strings.CutPrefix(name, s.variable(f.prefix)); found {
			return s.member(f.prefix + member)
		}
	}
	return nil
}
