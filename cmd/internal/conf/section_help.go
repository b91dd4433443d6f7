package conf

import (
	"fmt"
	"strings"

	"jobd/cmd/internal/page"
)

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

// sectionFlags are the flags that may have been meant by the words of the command line that begin
// as a flag of a section does: with the name that stands there.
func (s *Set) sectionFlags() (flags []string) {
	for _, o := range s.sections {
		for _, arg := range s.args {
			arg, _, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
			end := strings.LastIndexByte(arg, '.')
			if !strings.HasPrefix(arg, o.word+".") || end <= len(o.word) {
				continue
			}
			for _, key := range o.names() {
				flags = append(flags, arg[:end+1]+hyphens(key))
			}
		}
	}
	return flags
}

// nearSectionVariable is the variable that was probably meant by one that begins as a variable of a
// section does; "": there is none.
func (s *Set) nearSectionVariable(variable string) string {
	for _, o := range s.sections {
		prefix := s.variable(o.word) + "_"
		rest, found := strings.CutPrefix(variable, prefix)
		for at := range rest {
			for _, setting := range o.keys {
				key := inVariable(setting.name)
				if found && at > 0 && rest[at-1] == '_' && editDistance(rest[at:], key) <= likely(len(key)) {
					return prefix + "NAME_" + key
				}
			}
		}
	}
	return ""
}
