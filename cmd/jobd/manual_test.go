package main

import (
	"path/filepath"
	"testing"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/manualtest"
)

// The manual pages say what the help says.
func TestManualPages(t *testing.T) {
	t.Parallel()
	set := conf.New(about())
	new(check.Mode).Register(set)
	new(config).Register(set)
	manualtest.CheckKeys(t, filepath.Join("..", "..", "docs", "configuration.md"), "jobd", set)
	manualtest.CheckDaemon(t, filepath.Join("..", "..", "packaging", "man"), set, manualtest.Daemon{
		Name: "jobd", Summary: "run the jobs of a table's rows", Other: "jobd-master", Option: "--mysql-host", Prefix: environPrefix,
		Description: []string{
			about().Summary + " It claims rows that wait, starts the launcher for each, and writes back how the job ended. " +
				"Whatever happens to a job is in a journal on its own disk first, which jobctl reads.",
			"Jobs are started by a second process, jobd runner, so that a worker can be stopped, killed or upgraded while its jobs run on.",
		},
		Signals: []layout.Term{
			{Name: "SIGTERM, SIGINT", Meaning: "Claim no more, give back what has not started, and end when what runs has ended: see shutdown_timeout and on_stop in jobd.conf(5). A second one ends at once."},
			{Name: "SIGHUP", Meaning: "Read the file again and take over targets, concurrency, what is said of targets, launchers, time_zone, missed and log levels; open the log anew."},
		},
		Files: []layout.Term{{Name: "/var/lib/jobd/NAME", Meaning: "the journal of the worker NAME, where nothing else is said"}},
		Example: []string{
			"host = 127.0.0.1", "port = 7080", "mysql_host = /run/mysqld/mysqld.sock", "mysql_user = jobd", `mysql_password = "secret"`,
			"mysql_database = app", "launcher = /usr/bin/php /srv/app/job.php {id}", "", "[targets]", "mail = 10", "video/convert = 2",
			"", "[target video/convert]", "timeout = 2h", "kill_after = 1m",
		},
	})
}
