package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/manualtest"
	"jobd/store/storetest/check"
)

// newTree is all commands, as a run has them.
func newTree() (*program, *cmd) {
	p := &program{surroundings: surroundings{err: io.Discard, out: io.Discard, now: time.Now, location: time.UTC}}
	p.set = newSet(nil, nil, nil)
	p.config.register(p.set)
	return p, p.tree()
}

// walk visits a command and all below it, with their words.
func walk(c *cmd, words []string, visit func(c *cmd, words []string)) {
	visit(c, words)
	for _, below := range c.Subcommands {
		walk(below, append(words[:len(words):len(words)], below.Name), visit)
	}
}

// Each page of help fits 80 columns, tells what the command does, and has examples; the flags of
// all commands are in the first page only.
func TestEachHelpPage(t *testing.T) {
	t.Parallel()
	_, root := newTree()
	walk(root, nil, func(c *cmd, words []string) {
		name := strings.Join(words, " ")
		got := jobctl{environ: []string{"HOME=/home/operator"}}.run(t, append([]string{"help"}, words...)...)
		if other := (jobctl{environ: []string{"HOME=/home/operator"}}).run(t, append(words, "--help")...); other != got || got.code != 0 || got.err != "" {
			t.Errorf("jobctl help %s: %+v, jobctl %s --help: %+v", name, got, name, other)
		}
		for line := range strings.Lines(got.out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > layout.Width || strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
				t.Errorf("jobctl help %s has a line of %d columns: %q", name, n, line)
			}
		}
		if !strings.HasPrefix(got.out, "usage: jobctl [flags] "+strings.Fields(c.ShortUsage)[0]) || c.ShortHelp == "" {
			t.Errorf("jobctl help %s does not say what it is:\n%s", name, got.out)
		}
		check.Contains(t, got.out, "\nexamples:\n  ", "jobctl help %s has no examples", name)
		if strings.Contains(got.out, "--log-level") != (len(words) == 0) {
			t.Errorf("jobctl help %s: the global flags are in the first page only:\n%s", name, got.out)
		}
	})
}

// jobctl alone shows what people want most, on one screen, and each command that it names is there.
func TestTheOverviewIsOneScreen(t *testing.T) {
	t.Parallel()
	got := jobctl{}.run(t)
	if got.code != exit.Usage || got.out != overview || got.err != "" {
		t.Errorf("%+v", got)
	}
	lines := strings.Split(strings.TrimRight(overview, "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
	_, root := newTree()
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
		if words := strings.Fields(line[min(len(line), 10):min(len(line), 32)]); strings.HasPrefix(line, " ") || len(words) > 0 && slices.Contains([]string{"look", "act", "wait", "journal"}, strings.Fields(line)[0]) {
			for _, form := range strings.Split(strings.Join(words, " "), ", ") {
				isCommand(t, root, form)
			}
		}
	}
}

// isCommand fails unless a text begins with the words of a command.
func isCommand(t *testing.T, root *cmd, text string) {
	t.Helper()
	at := root
	for _, word := range strings.Fields(text) {
		i := slices.IndexFunc(at.Subcommands, func(c *cmd) bool { return c.Name == word })
		if i < 0 {
			break
		}
		at = at.Subcommands[i]
	}
	if at == root || len(at.Subcommands) > 0 {
		t.Errorf("%q is no command", text)
	}
}

// What is called otherwise elsewhere leads to a command that is there, and is none itself.
func TestCommandsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	_, root := newTree()
	for word, here := range elsewhere() {
		if slices.ContainsFunc(root.Subcommands, func(c *cmd) bool { return c.Name == word }) {
			t.Errorf("%s is a command", word)
		}
		if first := strings.TrimPrefix(here, "--master "); here != "--version" {
			isCommand(t, root, strings.Split(first, ",")[0])
		}
		if got := (jobctl{}).run(t, word, "5"); got.code != exit.Usage || got.err != "jobctl: unknown command "+word+"; here that is: jobctl "+here+"\n" {
			t.Errorf("%s: %+v", word, got)
		}
	}
}

// What an example shows is what jobctl takes, and is about the command whose help it is in.
func TestExamplesAreTaken(t *testing.T) {
	t.Parallel()
	_, root := newTree()
	used := map[string]bool{}
	walk(root, nil, func(c *cmd, words []string) {
		name := strings.Join(words, " ")
		used[name] = true
		for line := range strings.Lines(c.LongHelp) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "jobctl ") {
				continue // what goes before or behind it
			}
			args := shellWords(line)
			p, tree := newTree()
			got, err := arrange(tree, p.set.Args(args))
			if err == nil {
				err = got.setFlags()
			}
			if err != nil {
				t.Errorf("%s: %v", line, err)
			} else if name != "help" && len(c.Subcommands) == 0 && got.chosen.ShortUsage != c.ShortUsage {
				t.Errorf("%s: an example of %s", line, name)
			}
		}
	})
	for name := range examples() {
		if !used[name] {
			t.Errorf("there are examples of %q, and no such command", name)
		}
	}
}

// shellWords is the arguments of the first command in a line of a shell.
func shellWords(line string) (words []string) {
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " >")
	for i, part := range strings.Split(strings.TrimPrefix(line, "jobctl "), "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

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
