package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobexec "jobd/exec"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/sqlite"
)

// possible tells whether there is enough to look for the table.
func (c *storeConfig) possible() bool {
	if c.kind == storeSQLite {
		return c.sqlitePath != ""
	}
	return c.kind == storeMySQL && !conf.Unread(c.mysql.password) && c.mysql.host != "" && c.mysql.user != "" && c.mysql.database != ""
}

// dialLimit is how long the database may take to answer at all, below the limit of the report.
const dialLimit = 4 * time.Second

// checkTable looks at the table and its server.
func (c *config) checkTable(ctx context.Context) []check.Finding {
	targets := slices.Sorted(maps.Keys(c.targets))
	if c.store.kind == storeSQLite {
		findings, isNew, err := sqlite.Glance(ctx, c.sqliteConfig(), targets)
		seen := store.Inspection{Findings: findings}
		switch {
		case len(findings) > 0:
			err = nil // it is among them
		case isNew:
			seen.Facts = append(seen.Facts, "it will be made")
		case err == nil:
			seen.Facts = append(seen.Facts, "it has what a worker needs")
		}
		return tableFindings("table "+c.store.mysql.table+" in "+c.store.sqlitePath, seen, err)
	}
	config := c.mysqlConfig()
	config.Logger = slog.New(slog.DiscardHandler)
	config.ConnectTimeout, config.ReadTimeout, config.WriteTimeout = dialLimit, dialLimit, dialLimit
	what := "table " + config.Table + " on " + config.Host
	table, err := mysql.New(config)
	if err != nil {
		return tableFindings(what, store.Inspection{}, err)
	}
	defer table.Close()
	layout, err := table.Findings(ctx, targets)
	if len(layout) > 0 {
		err = nil // it is among them
	}
	if err != nil {
		return tableFindings(what, store.Inspection{}, err)
	}
	seen, inspectErr := table.Inspect(ctx)
	seen.Findings = append(layout, seen.Findings...)
	if err == nil && !slices.ContainsFunc(layout, func(f store.Finding) bool { return f.Severity == store.Fault }) {
		err = inspectErr // else it would say the same once more
	}
	return tableFindings(what, seen, err)
}

// tableFindings are the findings about a table. A server that can't be reached does not end a start.
func tableFindings(what string, seen store.Inspection, err error) []check.Finding {
	var findings []check.Finding
	for _, fact := range seen.Facts {
		findings = append(findings, check.Finding{What: what, Detail: fact})
	}
	for _, f := range seen.Findings {
		finding := check.Finding{Level: check.Warning, What: f.Where, Detail: f.What, Remedy: f.Remedy}
		if f.Severity == store.Fault {
			finding.Level, finding.Ends = check.Wrong, true
		}
		findings = append(findings, finding)
	}
	var unusable *store.Unusable
	switch {
	case errors.As(err, &unusable):
		findings = append(findings, check.Finding{Level: check.Wrong, What: what, Detail: err.Error(), Ends: true})
	case err != nil:
		findings = append(findings, check.Finding{
			Level: check.Wrong, What: what, Detail: "it can't be reached: " + err.Error(),
			Remedy: "start the server, or mend the keys mysql_host and mysql_port; until then nothing is claimed",
		})
	}
	return findings
}

// findTerms says in words what the sections of targets come to, so that a slip is seen.
func (c *config) findTerms() (findings []check.Finding) {
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		if _, served := c.targets[name]; served {
			t := c.sections[name]
			findings = append(findings, check.Finding{What: t.section.String(), Detail: strings.Join(t.words(), "; ")})
		}
	}
	return findings
}

// words are the terms of the target, each in a few words.
func (c *targetConfig) words() []string {
	return []string{attemptsInWords(c.terms), timeoutInWords(c.terms), rateInWords(c.terms.Rate)}
}

func attemptsInWords(t jobexec.Terms) string {
	switch {
	case t.Attempts == 0:
		return "one attempt, unless its row or on_crash gives more"
	case t.Attempts == 1:
		return "one attempt"
	case t.Backoff.First == t.Backoff.Most:
		return fmt.Sprintf("%d attempts, %s apart", t.Attempts, length(t.Backoff.First))
	}
	return fmt.Sprintf("%d attempts, from %s to %s apart", t.Attempts, length(t.Backoff.First), length(t.Backoff.Most))
}

func timeoutInWords(t jobexec.Terms) string {
	if t.Timeout == 0 {
		return "no time limit"
	}
	return fmt.Sprintf("SIGTERM after %s, SIGKILL %s later", length(t.Timeout), length(t.KillAfter))
}

func rateInWords(r jobexec.Rate) string {
	if r.Starts == 0 {
		return "as many starts as there are slots"
	}
	whose := "of this worker"
	if r.Fleet {
		whose = "of all workers of its master"
	}
	return fmt.Sprintf("at most %d starts in %s, %s", r.Starts, length(r.Per), whose)
}

// length is a duration without parts that are zero: 1h, not 1h0m0s.
func length(d time.Duration) string {
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// findTime says which columns are jobd's, and what counts for schedules.
func (c *config) findTime() []check.Finding {
	detail := strings.Join(c.time.uses, ", ")
	if c.time.uses.Has(store.ColumnSchedule) {
		missed := "made up for once"
		if c.time.skipMissed() {
			missed = "skipped"
		}
		detail += fmt.Sprintf("; schedules whose rows name no zone are in %v; a run that was missed is %s", c.time.location, missed)
	}
	return []check.Finding{{What: "use_columns", Detail: detail}}
}

// missingScript is which word of a command names its script, mostly, and is the name of no file; 0:
// none. Nothing else would tell of it before jobs come. It knows no program's options, and so stops
// where a word is no script any more, but an argument of one.
func missingScript(l jobexec.Launcher) int {
	if l.Mode.Requests() || slices.ContainsFunc(l.Words, isElsewhere) {
		return 0
	}
	for i, word := range l.Words {
		if i == 0 {
			continue
		}
		if beginsArguments(word) {
			return 0
		}
		info, err := os.Stat(inFolder(l.Dir, word))
		isFolder := err == nil && info.IsDir()
		switch {
		case isFolder && filepath.IsAbs(word): // in which the rest is looked for, maybe
			return 0
		case !namesScript(l.Words[i-1], word):
			continue
		case errors.Is(err, fs.ErrNotExist):
			return i
		case err != nil, isFolder, isScript(word):
			return 0
		}
	}
	return 0
}

// lacksScript tells whether a FastCGI server of this host is to run a file that is not there.
func lacksScript(s jobexec.Service) bool {
	if s.Mode != jobexec.ModeFastCGI || !filepath.IsAbs(s.Address) {
		return false
	}
	_, err := os.Stat(s.Script)
	return errors.Is(err, fs.ErrNotExist)
}

// beginsArguments tells a word behind which there are the arguments of a job, or names of another
// folder.
func beginsArguments(word string) bool {
	return strings.Contains(word, "{id}") || strings.HasPrefix(word, "--") && strings.Contains(word, "=/")
}

// inFolder is where a word of a command that runs in a folder leads.
func inFolder(dir, word string) string {
	if filepath.IsAbs(word) {
		return word
	}
	return filepath.Join(dir, word)
}

// fileName matches what may be the name of a file, and is no option, address, list, pattern or code.
var fileName = regexp.MustCompile(`^[\pL\d._/~][\pL\d._/~+@-]*$`)

// namesScript tells whether a word is hardly anything else than the name of a script, behind the one
// before: an option may have a file of its own, and what has no folder may be found by the PATH.
func namesScript(before, word string) bool {
	interpreted := interpreter.MatchString(filepath.Base(before))
	switch {
	case !fileName.MatchString(word), strings.HasPrefix(before, "-") && before != "--" && !strings.Contains(before, "="):
		return false
	case filepath.IsAbs(word):
		return interpreted || isScript(word)
	}
	return isScript(word) && (interpreted || strings.Contains(word, "/"))
}

// interpreter matches programs whose first argument is a script, if it is no option.
var interpreter = regexp.MustCompile(`^(?:php|python|ruby|perl|node|nodejs|deno|bun|sh|bash|dash|zsh|ksh|lua)[0-9.]*$`)

// scriptEndings are those of files that an interpreter is given.
var scriptEndings = []string{
	".php", ".phar", ".py", ".rb", ".pl", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".lua", ".jar", ".exs",
}

func isScript(word string) bool { return slices.Contains(scriptEndings, filepath.Ext(word)) }

// isElsewhere tells a program whose arguments name files of another host, or of another root.
func isElsewhere(word string) bool {
	return slices.Contains([]string{
		"ssh", "docker", "docker-compose", "podman", "nerdctl", "kubectl", "lxc", "incus", "machinectl",
		"flatpak", "chroot", "nsenter", "unshare", "bwrap", "proot", "systemd-nspawn",
	}, filepath.Base(word))
}

// lacks says which file is missing without which each job fails, mostly; "" where none is known of.
func lacks(l jobexec.Launcher) string {
	if i := missingScript(l); i > 0 {
		return "there is no file " + inFolder(l.Dir, l.Words[i]) + ", which its command names"
	}
	if lacksScript(l.Service) {
		return "there is no file " + l.Service.Script + " on this host, which the FastCGI server is to run; it must be there where that server sees it"
	}
	return ""
}

// missingScripts warns of what the common launcher lacks, and those of targets.
func (c *config) missingScripts() (warnings []string) {
	look := func(what string, launcher jobexec.Launcher) {
		if missing := lacks(launcher); missing != "" {
			warnings = append(warnings, what+": "+missing)
		}
	}
	look("launcher", c.launcher.launcher())
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		if t := c.sections[name]; t.launcher.command != "" && t.terms.Launcher != nil {
			look("launcher of "+t.section.String(), *t.terms.Launcher)
		}
	}
	return warnings
}
