package main

import (
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// examples are what the help of a command ends with, by the command's words, one a line.
func examples() map[string][]string {
	return map[string][]string{
		"":                       {"jobctl status", "jobctl --master --host 10.0.0.5 list-workers", "jobctl journal log --since 1h"},
		"status":                 {"jobctl status", "jobctl --master status", "jobctl status --output json | jq .journal"},
		"health":                 {"jobctl health", "jobctl --master health --workers 3,1 --oldest 10m,1h", "jobctl health --waiting 1000,5000 --failures 10%,50% --timeout 8s"},
		"list-targets":           {"jobctl list-targets", "jobctl list-targets --host 10.0.0.7"},
		"list-workers":           {"jobctl --master list-workers", "jobctl --master list-workers --output json | jq '.workers[].name'"},
		"memory-usage":           {"jobctl memory-usage", "jobctl --master memory-usage"},
		"poll":                   {"jobctl poll", "jobctl poll mail video/convert"},
		"poke":                   {"jobctl --master poke mail"},
		"pause":                  {"jobctl pause mail", "jobctl --master pause"},
		"continue":               {"jobctl continue mail", "jobctl --master continue"},
		"recycle":                {"jobctl recycle", "jobctl --master recycle mail --wait"},
		"add-target":             {"jobctl add-target reports 2"},
		"remove-target":          {"jobctl remove-target reports"},
		"set-target-concurrency": {"jobctl set-target-concurrency mail 20"},
		"restart":                {"jobctl restart", "jobctl restart --timeout 5m"},
		"run-manual":             {"jobctl run-manual 4711", "jobctl --master run-manual mail:4711 mail:4712"},
		"send-signal":            {"jobctl send-signal TERM 4711", "jobctl --master send-signal USR1 mail:4711", "jobctl send-signal 0 4711"},
		"completion":             {"source <(jobctl completion bash)", "jobctl completion zsh >~/.zfunc/_jobctl", "jobctl completion fish >~/.config/fish/completions/jobctl.fish"},
		"help":                   {"jobctl help pause", "jobctl help journal log"},
		"journal":                {"jobctl journal show 4711", "jobctl --master journal log --since 1h", "jobctl journal verify --journal /var/lib/jobd/node-1"},
		"journal log":            {"jobctl journal log -n20", "jobctl journal log --job 4711", "jobctl --master journal log --kind done --target mail --follow"},
		"journal show":           {"jobctl journal show 4711", "jobctl journal show --journal /var/lib/jobd/node-1 -- -5"},
		"journal state":          {"jobctl journal state --status running", "jobctl journal state --at '2026-11-20 14:00'", "jobctl journal state --target mail --since 1h -n20"},
		"journal conflicts":      {"jobctl journal conflicts --since 1d"},
		"journal stats":          {"jobctl journal stats --since 1d", "jobctl --master journal stats --by worker"},
		"journal export":         {"jobctl journal export --since 1d >events.jsonl", "jobctl journal export --format csv >events.csv"},
		"journal verify":         {"jobctl journal verify", "jobctl journal verify --anchor /mnt/safe/anchors"},
		"journal anchor":         {"jobctl --master journal anchor --out /mnt/safe/anchors"},
		"journal diff":           {"jobctl journal diff", "jobctl --master journal diff --ignore-deleted"},
		"journal reapply":        {"jobctl --master journal reapply --since '2026-11-20 03:00' --dry-run", "jobctl --master journal reapply --journal /mnt/node-3"},
	}
}

// illustrate gives the examples to a command and to all below it.
func illustrate(c *ffcli.Command, words string) {
	lines := examples()[words]
	if c.LongHelp == "" && len(lines) > 0 {
		c.LongHelp = "  " + strings.Join(lines, "\n  ")
	}
	for _, below := range c.Subcommands {
		illustrate(below, strings.TrimSpace(words+" "+below.Name))
	}
}
