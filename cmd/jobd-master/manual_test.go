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
	manualtest.CheckKeys(t, filepath.Join("..", "..", "docs", "configuration.md"), "jobd-master", set)
	manualtest.CheckDaemon(t, filepath.Join("..", "..", "packaging", "man"), set, manualtest.Daemon{
		Name: "jobd-master", Summary: "find the workers that serve a target", Other: "jobd", Option: "--ping-interval", Prefix: about().Prefix,
		Description: []string{
			about().Summary + " Workers register with it, each with its targets; an application pokes the master when it has made a row, " +
				"and the master has the workers of that target look for it. jobctl --master asks all workers at once through it. It keeps nothing on disk.",
		},
		Signals: []layout.Term{
			{Name: "SIGTERM, SIGINT", Meaning: "End. Workers go on with what they do, and register again when a master is back."},
			{Name: "SIGHUP", Meaning: "Read the file again and take over the log levels; open the log anew."},
		},
		Example: []string{"host = 0.0.0.0", "port = 7081", `password = "secret"`},
	})
}
