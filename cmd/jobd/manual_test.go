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
	return manualtest.Page{Name: "jobd", Section: 8, Summary: "run the jobs of a table's rows", Sections: []manualtest.Section{
		{Title: "Synopsis", Blocks: []manualtest.Block{{Text: "jobd [--KEY VALUE]… [--config FILE] [--check]"}}},
		{Title: "Description", Blocks: []manualtest.Block{
			{Text: about().Summary + " It claims rows that wait, starts the launcher for each, and writes back how the job ended. " +
				"Whatever happens to a job is in a journal on its own disk first, which jobctl reads."},
			{Text: "Jobs are started by a second process, jobd runner, so that a worker can be stopped, killed or upgraded while its jobs run on."},
		}},
		{Title: "Options", Blocks: []manualtest.Block{
			{Text: "Every key of jobd.conf(5) is an option, with a hyphen for each _, as in --mysql-host. Further ones are:"},
			manualtest.Flags(set),
		}},
		{Title: "Signals", Blocks: []manualtest.Block{{Terms: []page.Term{
			{Name: "SIGTERM, SIGINT", Meaning: "Claim no more, give back what has not started, and end when what runs has ended: see shutdown_timeout and on_stop in jobd.conf(5). A second one ends at once."},
			{Name: "SIGHUP", Meaning: "Read the file again and take over targets, concurrency, log levels and launcher; open the log anew."},
		}}}},
		{Title: "Exit status", Blocks: []manualtest.Block{{Text: "0: it ended as it was told to. 1: it could not go on, and the log says why. 2: the configuration or the command line is wrong."}}},
		{Title: "Files", Blocks: []manualtest.Block{{Terms: []page.Term{
			{Name: "/etc/jobd.conf", Meaning: "the configuration"},
			{Name: "/var/lib/jobd/NAME", Meaning: "the journal of the worker NAME, where nothing else is said"},
		}}}},
		{Title: "See also", Blocks: []manualtest.Block{{Text: "jobd.conf(5), jobctl(1), jobd-master(8)"}}},
	}}
}

func configurationPage(set *conf.Set) manualtest.Page {
	sections := []manualtest.Section{{Title: "Description", Blocks: []manualtest.Block{{Text: "This is the configuration of jobd(8), read from /etc/jobd.conf where --config names no other file."}}}}
	sections = append(sections, manualtest.FileForm(environPrefix)...)
	sections = append(sections,
		manualtest.Section{Title: "Keys", Blocks: []manualtest.Block{manualtest.KeysOf(set)}},
		manualtest.Section{Title: "Examples", Blocks: []manualtest.Block{{Lines: []string{
			"host = 127.0.0.1", "port = 7080", "mysql_host = /run/mysqld/mysqld.sock", "mysql_user = jobd", `mysql_password = "secret"`,
			"mysql_database = app", "launcher = /usr/bin/php /srv/app/job.php {id}", "", "[targets]", "mail = 10", "video/convert = 2",
		}}}},
		manualtest.Section{Title: "See also", Blocks: []manualtest.Block{{Text: "jobd(8), jobctl(1)"}}})
	return manualtest.Page{Name: "jobd.conf", Section: 5, Summary: "configuration of jobd", Sections: sections}
}
