package conf

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"jobd/cmd/internal/layout"
)

// Help writes what the program is and all its keys, with defaults and meanings.
func (s *Set) Help(w io.Writer) {
	if s.program.Usage == nil {
		layout.Text(w, s.program.Summary)
		fmt.Fprintf(w, "\nusage: %s [flags]\n\n", s.program.Name)
	} else if !s.program.Usage(w) {
		return
	}
	fmt.Fprintf(w, "flags:\n")
	var terms []layout.Term
	for _, key := range s.Keys() {
		meaning := key.Plain()
		if strings.HasPrefix(key.Name, "[") {
			meaning += "; in the file: " + key.Name + " = …"
		}
		terms = append(terms, layout.Term{Name: key.Flag, Meaning: meaning})
	}
	layout.List(w, append(terms, s.OwnFlags()...))
	fmt.Fprintln(w)
	layout.Text(w, fmt.Sprintf("In the file a key is spelt as its flag is, with _ for each - (log_file for --log-file), "+
		"and as a variable of the environment in capitals (%sHOST for host). "+
		"A flag overrides the environment, then come the file and the default.", s.program.Prefix))
	if s.program.Below != nil {
		s.program.Below(w)
	}
}

// OwnFlags are the flags that are no keys of the file, and what they are for.
func (s *Set) OwnFlags() []layout.Term {
	file := "the configuration file"
	if s.program.File != "" {
		file += " (" + s.program.File + ")"
	}
	terms := []layout.Term{{Name: "--config", Meaning: file}}
	if check := s.flags.Lookup("check"); check != nil {
		terms = append(terms, layout.Term{Name: "--check", Meaning: check.Usage})
	}
	return append(terms, layout.Term{Name: "--help", Meaning: "print this"}, layout.Term{Name: "--version", Meaning: "print the version; with --verbose commit and date, too"})
}

// Key is a key as the help, manual pages and the documentation list it.
type Key struct {
	Name    string // in the file: [targets] NAME of a section's
	Flag    string // with its hyphens
	Group   string // the heading in the documentation; "-": it is not listed there
	Default string // "": none
	Without string // what holds then, in words; "": nothing
	Meaning string // with marks of Markdown
}

var links = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)

// Plain is the meaning without marks, and what holds where the key is not given.
func (k Key) Plain() string {
	text := k.Meaning
	switch {
	case k.Default != "":
		text += " (default: " + k.Default + ")"
	case k.Without != "":
		text += " (" + k.Without + ")"
	}
	return withoutMarks(text)
}

func withoutMarks(text string) string {
	return strings.ReplaceAll(links.ReplaceAllString(text, "$1"), "`", "")
}

// Keys are all keys, in the order of their declaration.
func (s *Set) Keys() (keys []Key) {
	for _, d := range s.table {
		key := Key{d.key, "--" + d.spelt(hyphens), d.group, d.def, d.words, d.usage}
		switch {
		case d.isListed():
			key.Name = d.head() + " NAME"
		case d.section() != "":
			key.Name = d.head() + " " + d.within()
		}
		keys = append(keys, key)
	}
	return keys
}
