package conf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Setting is one key and its value. It implements flag.Value, and accepts any text: finish decodes
// it when all sources are read, so that all mistakes are reported together.
type Setting struct {
	set     *Set
	family  *family  // whose member it is; nil: it is none
	section *Section // whose key it is, by name; nil: of none, or of a family there
	name    string   // of a member in its family, of a key in its section

	key    string
	flag   string
	def    string
	usage  string
	toggle bool
	decode Decode

	secret    bool
	ownQuotes bool
	plain     bool     // its name in the file has no quotes around it
	file      *Setting // the key of a file that holds the value; nil: there is none

	text  string
	given bool
	place place
}

// place is where a value was given: in a line of the file, in a variable, or
// else on the command line.
type place struct {
	line     int
	variable string
	kept     bool // in a file that this place names
}

// Switch makes the key's flag one that needs no value.
func (s *Setting) Switch() *Setting {
	s.toggle = true
	return s
}

// Secret marks the key of a password: no message repeats any part of it, and a file that has one
// should be readable by the program's own user only.
func (s *Setting) Secret() *Setting {
	s.secret = true
	return s
}

// OwnQuotes marks a key whose value may have quotes of its own, as commands do.
func (s *Setting) OwnQuotes() *Setting {
	s.ownQuotes = true
	return s
}

// isSecret tells whether the value is, or may be, a password.
func (s *Setting) isSecret() bool {
	if s.secret || !s.isFree() {
		return s.secret
	}
	name := strings.ToUpper(s.name)
	return strings.Contains(name, "PASS") || strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN")
}

// Alias gives the key a second name.
func (s *Setting) Alias(key string) *Setting {
	s.set.byKey[key] = s
	s.set.flags.Var(s, strings.ReplaceAll(key, "_", "-"), "the same as --"+s.flag)
	return s
}

// IsBoolFlag tells package flag whether the flag needs no value.
func (s *Setting) IsBoolFlag() bool { return s.toggle }

// String implements flag.Value. It does not give the value, which may be secret.
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
	s.checkSecret(text)
	var odd Odd
	switch problem := s.decode(text); {
	case problem == nil:
	case errors.As(problem, &odd):
		s.set.Warn(s.key, odd.Error())
	default:
		s.set.Bad(s.key, fmt.Sprintf("%s is not allowed; allowed is %v%s", s.shown(text), problem, s.meantKey()))
	}
}

// checkSecret warns of a password that was hardly meant as it is, or that others see.
func (s *Setting) checkSecret(text string) {
	if !s.secret || !s.given || text == "" {
		return
	}
	if strings.TrimSpace(text) != text {
		s.set.Warn(s.key, "it begins or ends with a blank or a line's end, which counts")
	}
	if s.place == (place{}) && !s.toggle {
		s.set.Warn(s.key, "everybody on this host can see it in the list of processes; its place is the file, or the environment")
	}
}

// mostShown is the longest value that an error repeats.
const mostShown = 64

// shown is a value as an error may repeat it: what somebody has mistyped is found best by seeing
// it. A password is never repeated, nor what may be one: the value of a password's key, or one that
// has a password of this configuration in it; the value of a family's key; a text that is long or
// looks like an address with a password. The lines of a section take any name, so each may be meant
// for a password's key.
func (s *Setting) shown(text string) string {
	byFlag := s.place == place{}
	switch {
	case s.secret || s.isFree(), len(text) > mostShown, strings.ContainsAny(text, "=@"),
		!byFlag && s.inSection() && strings.Trim(text, "+-0123456789.,") != "", s.set.hasPassword(text):
		return "its value"
	}
	return strconv.Quote(text)
}

// hasPassword tells whether a password that was given is part of a text.
func (s *Set) hasPassword(text string) bool {
	return slices.ContainsFunc(s.settings, func(other *Setting) bool {
		return other.isSecret() && other.text != "" && strings.Contains(text, other.text)
	})
}

// Shown is the value of key, or a part of it, as an error may repeat it.
func (s *Set) Shown(key, text string) string { return s.byKey[key].shown(text) }

// meantKey says which key of the program the name of a section's line may have been meant for.
func (s *Setting) meantKey() string {
	if !s.given || s.place.line == 0 || !s.plain || !s.inSection() {
		return ""
	}
	_, name, _ := strings.Cut(s.key, ".")
	key, distance := nearestOf(name, s.set.keys())
	place := "above the section"
	for _, o := range s.set.sections {
		if own, changes := nearestOf(name, o.names()); changes < distance {
			key, distance, place = own, changes, fmt.Sprintf("below %v", o.any)
		}
	}
	if distance > likely(len(name)) {
		return ""
	}
	return "; if the key " + key + " is meant: its place is " + place
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
	return s.program.Prefix + inVariable(key)
}

// byVariable finds the setting of an environment variable; nil if there is none.
func (s *Set) byVariable(name string) *Setting {
	for key, setting := range s.byKey {
		if s.variable(key) == name && !setting.isMember() {
			return setting
		}
	}
	if rest, found := strings.CutPrefix(name, s.program.Prefix); found {
		if setting := s.ofSection(rest, "_", inVariable); setting != nil {
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
