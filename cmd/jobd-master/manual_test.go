package main

import (
	"path/filepath"
	"testing"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/manualtest"
	"jobd/cmd/internal/page"
)

// The manual pages say what the help says.
func TestManualPages(t *testing.T) {
	t.Parallel()
	set := conf.New(about())
	new(check.Mode).Register(set)
	new(config).Register(set)
	manualtest.Check(t, filepath.Join("..", "..", "packaging", "man"), manualPage(set), configurationPage(set))
}

func manualPage(set *conf.Set) manualtest.Page {
	return manualtest.Page{Name: "jobd-master", Section: 8, Summary: "find the workers that serve a target", Sections: []manualtest.Section{
		{Title: "Synopsis", Blocks: []manualtest.Block{{Text: "jobd-master [--KEY VALUE]… [--config FILE] [--check]"}}},
		{Title: "Description", Blocks: []manualtest.Block{
			{Text: about().Summary + " Workers register with it, each with its targets; an application pokes the master when it has made a row, " +
				"and the master has the workers of that target look for it. jobctl --master asks all workers at once through it. It keeps nothing on disk."},
		}},
		{Title: "Options", Blocks: []manualtest.Block{
			{Text: "Every key of jobd-master.conf(5) is an option, with a hyphen for each _, as in --ping-interval. Further ones are:"},
			manualtest.Flags(set),
		}},
		{Title: "Signals", Blocks: []manualtest.Block{{Terms: []page.Term{
			{Name: "SIGTERM, SIGINT", Meaning: "End. Workers go on with what they do, and register again when a master is back."},
			{Name: "SIGHUP", Meaning: "Read the file again and take over the log levels; open the log anew."},
		}}}},
		{Title: "Exit status", Blocks: []manualtest.Block{{Text: "0: it ended as it was told to. 1: it could not go on, and the log says why. 2: the configuration or the command line is wrong."}}},
		{Title: "Files", Blocks: []manualtest.Block{{Terms: []page.Term{{Name: "/etc/jobd-master.conf", Meaning: "the configuration"}}}}},
		{Title: "See also", Blocks: []manualtest.Block{{Text: "jobd-master.conf(5), jobctl(1), jobd(8)"}}},
	}}
}

func configurationPage(set *conf.Set) manualtest.Page {
	sections := []manualtest.Section{{Title: "Description", Blocks: []manualtest.Block{{Text: "This is the configuration of jobd-master(8), read from /etc/jobd-master.conf where --config names no other file."}}}}
	sections = append(sections, manualtest.FileForm(about().Prefix)...)
	sections = append(sections,
		manualtest.Section{Title: "Keys", Blocks: []manualtest.Block{manualtest.KeysOf(set)}},
		manualtest.Section{Title: "Examples", Blocks: []manualtest.Block{{Lines: []string{"host = 0.0.0.0", "port = 7081", `password = "secret"`}}}},
		manualtest.Section{Title: "See also", Blocks: []manualtest.Block{{Text: "jobd-master(8), jobctl(1)"}}})
	return manualtest.Page{Name: "jobd-master.conf", Section: 5, Summary: "configuration of jobd-master", Sections: sections}
}
