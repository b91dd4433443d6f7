package manualtest

import (
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/layout"
)

// Daemon is what the two manual pages of a daemon say that those of the other one don't: that of the
// program, and that of its configuration.
type Daemon struct {
	Name        string
	Summary     string
	Description []string
	Option      string // one of its flags, for an example
	Prefix      string // of its variables
	Signals     []layout.Term
	Files       []layout.Term // beside the configuration
	Other       string        // daemon
	Example     []string      // the lines of a configuration
}

// CheckDaemon compares both pages with the files in a folder.
func CheckDaemon(t *testing.T, folder string, set *conf.Set, d Daemon) {
	t.Helper()
	Check(t, folder, d.program(set), d.configuration(set))
}

// program is the page jobd(8), say.
func (d Daemon) program(set *conf.Set) Page {
	var description []Block
	for _, text := range d.Description {
		description = append(description, Block{Text: text})
	}
	files := append([]layout.Term{{Name: "/etc/" + d.Name + ".conf", Meaning: "the configuration"}}, d.Files...)
	return Page{Name: d.Name, Section: 8, Summary: d.Summary, Sections: []Section{
		{Title: "Synopsis", Blocks: []Block{{Text: d.Name + " [--KEY VALUE]… [--config FILE] [--check]"}}},
		{Title: "Description", Blocks: description},
		{Title: "Options", Blocks: []Block{
			{Text: "Every key of " + d.Name + ".conf(5) is an option, with a hyphen for each _, as in " + d.Option + ". Further ones are:"},
			Flags(set),
		}},
		{Title: "Signals", Blocks: []Block{{Terms: d.Signals}}},
		{Title: "Exit status", Blocks: []Block{{Text: "0: it ended as it was told to. 1: it could not go on, and the log says why. 2: the configuration or the command line is wrong."}}},
		{Title: "Files", Blocks: []Block{{Terms: files}}},
		seeAlso(d.Name + ".conf(5), jobctl(1), " + d.Other + "(8)"),
	}}
}

// configuration is the page jobd.conf(5), say.
func (d Daemon) configuration(set *conf.Set) Page {
	name := d.Name + ".conf"
	sections := []Section{{Title: "Description", Blocks: []Block{{
		Text: "This is the configuration of " + d.Name + "(8), read from /etc/" + name + " where --config names no other file.",
	}}}}
	sections = append(sections, FileForm(d.Prefix)...)
	sections = append(sections,
		Section{Title: "Keys", Blocks: []Block{KeysOf(set)}},
		Section{Title: "Examples", Blocks: []Block{{Lines: d.Example}}},
		seeAlso(d.Name+"(8), jobctl(1)"))
	return Page{Name: name, Section: 5, Summary: "configuration of " + d.Name, Sections: sections}
}

func seeAlso(pages string) Section {
	return Section{Title: "See also", Blocks: []Block{{Text: pages}}}
}
