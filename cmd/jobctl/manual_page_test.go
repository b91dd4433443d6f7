package main

import (
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/manualtest"
)

// The manual pages say what the help says.
func TestManualPages(t *testing.T) {
	t.Parallel()
	p := &program{}
	p.set = newSet([]string{"HOME=~"}, nil, nil)
	p.config.register(p.set)
	manualtest.CheckKeys(t, filepath.Join("..", "..", "docs", "configuration.md"), "jobctl", p.set)
	manualtest.Check(t, filepath.Join("..", "..", "packaging", "man"), p.manualPage(p.tree()), p.configurationPage())
}

func (p *program) manualPage(root *cmd) manualtest.Page {
	var flags []layout.Term
	for _, key := range p.set.Keys() {
		flags = append(flags, layout.Term{Name: key.Flag, Meaning: key.Plain()})
	}
	return manualtest.Page{Name: "jobctl", Section: 1, Summary: "ask jobd's workers and masters, and read journals", Sections: []manualtest.Section{
		{Title: "Synopsis", Blocks: []manualtest.Block{{Text: "jobctl [flags] " + root.ShortUsage}}},
		{Title: "Description", Blocks: []manualtest.Block{
			{Text: "jobctl asks a worker, jobd(8), or with --master a master, jobd-master(8), and reads journals. Flags may stand before or after the command's words; " +
				"after -- nothing is a flag. @PROFILE, anywhere before --, goes where a section of ~/.jobctl.conf says: see jobctl.conf(5)."},
			{Text: "On a terminal tables fit its width, with … where a cell is cut, and times are to the second, with their date only where that is not today. " +
				"Elsewhere, and for times with --precise, everything is whole. --output json prints the data of the answer."},
		}},
		{Title: "Options", Blocks: []manualtest.Block{{Terms: flags}, manualtest.Flags(p.set)}},
		{Title: "Commands", Blocks: commandBlocks(root)},
		{Title: "Exit status", Blocks: []manualtest.Block{{Text: "0: all went well. 1: the daemon or a check said no, a job failed, or no answer came. 2: wrong usage or configuration; nobody was asked. " +
			"3: it could not connect. 130, 143: it was interrupted."}}},
		{Title: "Environment", Blocks: []manualtest.Block{{Terms: []layout.Term{
			{Name: "JOBCTL_HOST, …", Meaning: "Every key of jobctl.conf(5) in capitals, behind JOBCTL_. With a profile, those that say where to go don't count."},
			{Name: "COLUMNS", Meaning: "how wide the terminal is, in place of what it says itself"},
			{Name: "NO_COLOR, TERM", Meaning: "No colours are used where NO_COLOR has a value, or TERM is dumb or has none."},
		}}}},
		{Title: "Files", Blocks: []manualtest.Block{{Terms: []layout.Term{{Name: "~/.jobctl.conf", Meaning: "the configuration; it should be readable by its owner only (mode 0600)"}}}}},
		{Title: "See also", Blocks: []manualtest.Block{{Text: "jobctl.conf(5), jobd(8), jobd-master(8)"}}},
	}}
}

// commandBlocks describes all commands, in the order of the groups.
func commandBlocks(root *cmd) (blocks []manualtest.Block) {
	for _, c := range root.Subcommands {
		walk(c, nil, func(c *cmd, _ []string) {
			blocks = append(blocks, manualtest.Block{Heading: c.ShortUsage, Text: c.ShortHelp, Terms: flagsOf(c), Lines: examplesOf(c)})
		})
	}
	return blocks
}

func examplesOf(c *cmd) (lines []string) {
	for line := range strings.Lines(c.LongHelp) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (p *program) configurationPage() manualtest.Page {
	sections := []manualtest.Section{{Title: "Description", Blocks: []manualtest.Block{{Text: "This is the configuration of jobctl(1), read from ~/.jobctl.conf where --config names no other file. It need not exist."}}}}
	sections = append(sections, manualtest.FileForm("JOBCTL_")...)
	sections = append(sections,
		manualtest.Section{Title: "Keys", Blocks: []manualtest.Block{manualtest.KeysOf(p.set)}},
		manualtest.Section{Title: "Profiles", Blocks: []manualtest.Block{
			{Text: "Each section is a profile: jobctl @prod goes where [prod] says. Where to go (host, port, master, master_port) and the password are the section's alone: " +
				"neither the keys above all sections nor the environment count for them, so that no host hears another one's password; " +
				"and where --host names another host, the password of the profile is not sent. Other keys above the sections count where the section has none. " +
				"In a profile port is the worker's, unless master is set there, and master_port the master's, 7081 if not given."},
			{Text: "Without a profile the keys above all sections count."},
		}},
		manualtest.Section{Title: "Examples", Blocks: []manualtest.Block{{Lines: []string{
			"log_level = error", "", "[prod]", "host = 10.0.0.5", `password = "secret"`, "", "[fleet]", "host = 10.0.0.1", "master = 1",
		}}}},
		manualtest.Section{Title: "See also", Blocks: []manualtest.Block{{Text: "jobctl(1)"}}})
	return manualtest.Page{Name: "jobctl.conf", Section: 5, Summary: "configuration of jobctl", Sections: sections}
}
