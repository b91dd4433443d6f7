package conf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Setting is a key of the table: what it is called, what it is for and what it may be; and the value
// that it was given. One with NAME in its key stands for all keys of that form:
//
//	mysql_host             a key
//	launcher.env.NAME      keys whose NAME may be anything, and whose values may be passwords
//	targets.NAME           lines of the section [targets]
//	target.NAME.timeout    a key of the sections [target NAME]
//
// It implements flag.Value, and accepts any text: finish decodes it when all sources are read, so
// that all mistakes are reported together.
type Setting struct {
	set    *Set
	key    string
	parts  []string // what stands before, between and behind each NAME
	group  string   // under which the documentation has it
	def    string
	words  string // what holds where neither it nor a default is given
	usage  string // with marks of Markdown
	decode func(names []string) Decode

	alias     string
	toggle    bool
	secret    bool
	ownQuotes bool
	live      bool
	kept      bool     // a second key may name a file that holds the value
	names     []string // in the place of NAME

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

// Group puts the keys that are declared from now on below a heading of the documentation; below "-" is
// none.
func (s *Set) Group(heading string) { s.group = heading }

// Add declares a key. A default of "" leaves the field as it is. The
// key's flag has hyphens for its underscores.
func (s *Set) Add(key, def, usage string, decode Decode) *Setting {
	return s.AddNamed(key, def, usage, func([]string) Decode { return decode })
}

// AddNamed declares all keys of a form with NAME in it. decode is given the names that stand in their
// places, with their case.
func (s *Set) AddNamed(key, def, usage string, decode func(names []string) Decode) *Setting {
	d := &Setting{set: s, key: key, parts: strings.Split(key, "NAME"), group: s.group, def: def, usage: usage, decode: decode}
	s.table = append(s.table, d)
	if len(d.parts) == 1 {
		s.known(d)
	}
	return d
}

// known makes the flag of a key known, and has it decoded.
func (s *Set) known(setting *Setting) *Setting {
	s.settings = append(s.settings, setting)
	s.byKey[setting.key] = setting
	s.flags.Var(setting, setting.spelt(hyphens), withoutMarks(setting.usage))
	return setting
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

// Live marks a key of which a change takes effect when the configuration is read again.
func (s *Setting) Live() *Setting {
	s.live = true
	return s
}

// Without says in words what holds where the key is not given and has no default.
func (s *Setting) Without(words string) *Setting {
	s.words = words
	return s
}

// Alias gives the key a second name.
func (s *Setting) Alias(key string) *Setting {
	s.alias = key
	s.set.flags.Var(s, hyphens(key), "the same as --"+s.spelt(hyphens))
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

// How a key is written in the file, as a flag, and in the name of a variable.

func plainly(key string) string { return key }

func hyphens(key string) string { return strings.ReplaceAll(key, "_", "-") }

func inVariable(key string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
}

// spelt is the key, with NAME or the names that it has, which are spelt as they are.
func (s *Setting) spelt(written func(string) string) string {
	text := written(s.parts[0])
	for i, part := range s.parts[1:] {
		name := "NAME"
		if i < len(s.names) {
			name = s.names[i]
		}
		text += name + written(part)
	}
	return text
}

// section is the word of the section that has the key: targets, target; "": it stands above all.
func (s *Setting) section() string {
	word := strings.TrimSuffix(s.parts[0], ".")
	if len(s.parts) == 1 || strings.Contains(word, ".") {
		return ""
	}
	return word
}

// isListed tells the lines of a section that may have any name from all other keys.
func (s *Setting) isListed() bool { return s.section() != "" && len(s.parts) == 2 && s.parts[1] == "" }

// isFree tells a key whose values may be anything, such as a password, from one that has a meaning.
func (s *Setting) isFree() bool {
	return len(s.parts) > 1 && s.parts[len(s.parts)-1] == "" && !s.isListed()
}

// within is the key as it stands in its section [word NAME]; the key itself where it is in none.
func (s *Setting) within() string {
	if s.section() == "" || s.isListed() {
		return s.key
	}
	return strings.TrimPrefix(s.parts[1], ".") + strings.Repeat("NAME", len(s.parts)-2)
}

// head is how the head of its section is written in the file.
func (s *Setting) head() string {
	if s.isListed() {
		return "[" + s.section() + "]"
	}
	return "[" + s.section() + " NAME]"
}

// match finds the key of the table that a text is, and the names in it; nil: there is none. If several
// keys match, a key without names wins, then a key with two names, of which the last may be any text,
// then the key with the longest text after its name.
func (s *Set) match(text string, written func(string) string) (found *Setting, names []string) {
	weight := -1
	for _, d := range s.table {
		last := len(d.parts) - 1
		rest, is := strings.CutPrefix(text, written(d.parts[0]))
		var in []string
		own := len(d.parts[last])
		switch {
		case last == 0:
			is, own = text == written(d.key) || d.alias != "" && text == written(d.alias), 1000
		case last == 1:
			rest, found := strings.CutSuffix(rest, written(d.parts[1]))
			in, is = []string{rest}, is && found
		default:
			name, member, found := strings.Cut(rest, written(d.parts[1]))
			in, is, own = []string{name, member}, is && found, 999
		}
		if is && own > weight && !slices.Contains(in, "") {
			found, names, weight = d, in, own
		}
	}
	return found, names
}

// lookup gives the setting that a text is the key of; nil: there is none. With the first key of a
// section [word NAME] all of the section's are known by that NAME.
func (s *Set) lookup(text string, written func(string) string) *Setting {
	declared, names := s.match(text, written)
	switch {
	case declared == nil || len(names) == 0:
		return declared
	case declared.section() != "" && !declared.isListed():
		s.open(declared.section(), names[0])
	}
	return declared.named(names)
}

// open makes the keys of the section [word NAME] known.
func (s *Set) open(word, name string) {
	prefix := word + "." + name + "."
	if _, known := s.heads[prefix]; known {
		return
	}
	s.heads[prefix] = 0
	for _, d := range s.table {
		if d.section() == word && !d.isListed() && !d.isFree() {
			d.named([]string{name})
		}
	}
}

// named is the key with names, known from now on.
func (s *Setting) named(names []string) *Setting {
	one := *s
	one.names = names
	one.key = one.spelt(plainly)
	if known := s.set.byKey[one.key]; known != nil {
		return known
	}
	return s.set.known(&one)
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
	switch problem := s.decode(s.names)(text); {
	case problem == nil:
	case errors.As(problem, &odd):
		s.set.Warn(s.key, odd.Error())
	default:
		s.set.Bad(s.key, fmt.Sprintf("%s is not allowed; allowed: %v", s.shown(text), problem))
	}
}

// isSecret tells whether the value is, or may be, a password.
func (s *Setting) isSecret() bool {
	if s.secret || !s.isFree() {
		return s.secret
	}
	name := strings.ToUpper(s.names[len(s.names)-1])
	return strings.Contains(name, "PASS") || strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN")
}

// checkSecret warns of a password that was hardly meant as it is, or that others see.
func (s *Setting) checkSecret(text string) {
	if !s.secret || !s.given || text == "" {
		return
	}
	if strings.TrimSpace(text) != text {
		s.set.Warn(s.key, "it begins or ends with a blank or a newline, which is part of it")
	}
	if s.place == (place{}) && !s.toggle {
		s.set.Warn(s.key, "everybody on this host can see it in the list of processes; put it into the file or the environment")
	}
}

// mostShown is the longest value that an error repeats.
const mostShown = 64

// shown is a value as an error may repeat it: what somebody has mistyped is found best by seeing
// it. A password is never repeated, nor what may be one: the value of a password's key, or one that
// has a password of this configuration in it; a value that may be anything; a text that is long or
// looks like an address with a password. The lines of a section take any name, so each may be meant
// for a password's key.
func (s *Setting) shown(text string) string {
	byFlag := s.place == place{}
	switch {
	case s.secret || s.isFree(), len(text) > mostShown, strings.ContainsAny(text, "=@"),
		!byFlag && s.isListed() && strings.Trim(text, "+-0123456789.,") != "", s.set.hasPassword(text):
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

// Place names the place of key's value, and the key, as warnings and errors do.
func (s *Set) Place(key string) string {
	setting := s.byKey[key]
	switch {
	case !setting.given:
		return key
	case setting.place.variable != "":
		return fmt.Sprintf("environment %s: %s", setting.place.variable, key)
	case setting.place.line > 0:
		return fmt.Sprintf("%s:%d: %s", s.path, setting.place.line, key)
	default:
		return fmt.Sprintf("flag --%s: %s", setting.spelt(hyphens), key)
	}
}
