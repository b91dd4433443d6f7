package conf

import (
	"fmt"
	"io"
	"strings"

	"jobd/cmd/internal/page"
)

// Help writes what the program is and all its keys, with defaults and meanings.
func (s *Set) Help(w io.Writer) {
	if s.program.Usage == nil {
		page.Text(w, s.program.Summary)
		fmt.Fprintf(w, "\nusage: %s [flags]\n\n", s.program.Name)
	} else if !s.program.Usage(w) {
		return
	}
	fmt.Fprintf(w, "flags:\n")
	var terms []page.Term
	for _, setting := range s.settings {
		if !setting.isMember() {
			terms = append(terms, page.Term{Name: "--" + setting.flag, Meaning: setting.meaning()})
		}
	}
	for _, f := range s.families {
		terms = append(terms, page.Term{Name: "--" + f.prefix + "NAME", Meaning: f.meaning()})
	}
	terms = append(terms, s.sectionTerms()...)
	page.List(w, append(terms, s.OwnFlags()...))
	fmt.Fprintln(w)
	page.Text(w, fmt.Sprintf("In the file a key is spelt as its flag is, with _ for each - (log_file for --log-file), "+
		"and as a variable of the environment in capitals (%sHOST for host). "+
		"A flag counts before the environment, that before the file, that before the default.", s.program.Prefix))
	if s.program.Below != nil {
		s.program.Below(w)
	}
}

// OwnFlags are the flags that are no keys of the file, and what they are for.
func (s *Set) OwnFlags() []page.Term {
	file := "the configuration file"
	if s.program.File != "" {
		file += " (" + s.program.File + ")"
	}
	terms := []page.Term{{Name: "--config", Meaning: file}}
	if check := s.flags.Lookup("check"); check != nil {
		terms = append(terms, page.Term{Name: "--check", Meaning: check.Usage})
	}
	return append(terms, page.Term{Name: "--help", Meaning: "print this"}, page.Term{Name: "--version", Meaning: "print the version; with --verbose commit and date, too"})
}

// meaning is what a key is for, with its default.
func (s *Setting) meaning() string {
	if s.def == "" || s.toggle && s.def == "false" {
		return s.usage
	}
	return fmt.Sprintf("%s (default: %s)", s.usage, s.def)
}

// meaning is what the keys of a family are for, and how they are written in the file.
func (f *family) meaning() string {
	if f.section == "" {
		return f.usage
	}
	return fmt.Sprintf("%s; in the file: [%s] NAME = …", strings.TrimRight(f.usage, "."), f.section)
}
