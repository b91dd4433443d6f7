package conf

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Help writes what the program is and all its keys, with defaults and meanings.
func (s *Set) Help(w io.Writer) {
	if s.program.Usage != nil {
		s.program.Usage(w)
	} else {
		fmt.Fprintf(w, "%s\n\nusage: %s [flags]\n\n", s.program.Summary, s.program.Name)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "FLAG\tKEY IN THE FILE\tDEFAULT\tMEANING\n")
	for _, setting := range s.settings {
		if !setting.isMember() {
			fmt.Fprintf(table, "--%s\t%s\t%s\t%s\n", setting.flag, setting.key, orDash(setting.def), setting.usage)
		}
	}
	for _, f := range s.families {
		inFile := f.prefix + "NAME"
		if f.section != "" {
			inFile = "[" + f.section + "] NAME"
		}
		fmt.Fprintf(table, "--%sNAME\t%s\t–\t%s\n", f.prefix, inFile, f.usage)
	}
	fmt.Fprintf(table, "--config\t\t%s\tthe configuration file\n", orDash(s.program.File))
	if check := s.flags.Lookup("check"); check != nil {
		fmt.Fprintf(table, "--check\t\t\t%s\n", check.Usage)
	}
	fmt.Fprintf(table, "--help\t\t\tprint this\n")
	fmt.Fprintf(table, "--version\t\t\tprint the version\n")
	table.Flush()
	fmt.Fprintf(w, "\nEvery key is also an environment variable: %sHOST for host, and so on.\n", s.program.Prefix)
	fmt.Fprintf(w, "A flag counts before the environment, that before the file, that before the default.\n")
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
