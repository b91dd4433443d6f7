package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	jobexec "jobd/exec"
	"jobd/exec/schedule"
	"jobd/store"
)

// targetSection is the word of the sections about one target: [target mail].
const targetSection = "target"

// targetConfig is what a section says of a target's jobs.
type targetConfig struct {
	section  *conf.Section
	terms    jobexec.Terms
	scope    string
	launcher launcherConfig
}

// What a target's terms may be at most: as many attempts as their column counts, and a rate that no
// host reaches.
const (
	mostAttempts = math.MaxUint16
	mostStarts   = 1_000_000
)

// addTargetTerms takes the section of a target.
func (c *config) addTargetTerms(section *conf.Section) {
	t := &targetConfig{section: section}
	t.launcher.prefix = section.Key("")
	t.register(section)
	if section.Name == "" {
		return
	}
	if c.sections == nil {
		c.sections = map[string]*targetConfig{}
	}
	c.sections[section.Name] = t
}

func (c *targetConfig) register(section *conf.Section) {
	section.Add("attempts", "", "how often a job is started in all until it succeeds; 1, or nothing: once", conf.Int(&c.terms.Attempts, 1, mostAttempts))
	section.Add("backoff", "10s..1h", "how long a failed job waits for its next start: FIRST..MOST, doubled each time; or always the same", c.decodeBackoff)
	section.Add("timeout", "", "how long a job may run; nothing: for ever", conf.WholeSeconds(&c.terms.Timeout))
	section.Add("kill_after", "10s", "how long a job has after its timeout, between SIGTERM and SIGKILL", conf.WholeSeconds(&c.terms.KillAfter))
	section.Add("spread", "", "within which time rows that recur start behind their planned times, each always as late as before; nothing: at these", c.decodeSpread)
	section.Add("rate", "", "how many jobs are started at most in a second, a minute or an hour: 50/s, 100/m, 1000/h", c.decodeRate)
	section.Add("rate_scope", "worker", "whose starts these are: this worker's, or those of all workers of its master: fleet", conf.OneOf(&c.scope, "worker", "fleet"))
	section.Add("launcher", "", "the command that runs its jobs, in the place of the common one", conf.NonEmpty(&c.launcher.command)).OwnQuotes()
	section.Add("launcher.cwd", "", "where that runs; where the common one does if not given", conf.NonEmpty(&c.launcher.dir))
	section.AddFamily("launcher.env", "a variable added to its environment, which is that of the common one", c.launcher.addVariable)
	c.launcher.executor.register(section, nil)
}

// mostSpread is how far behind its planned time a row may start.
const mostSpread = 24 * time.Hour

// decodeSpread takes whole seconds.
func (c *targetConfig) decodeSpread(text string) error {
	if err := conf.WholeSeconds(&c.terms.Spread)(text); err != nil || c.terms.Spread > mostSpread {
		return errors.New("whole seconds, or a duration such as 90s, 10m or 1h30m, of 1s to 24h")
	}
	return nil
}

// decodeBackoff takes FIRST..MOST, or one duration that stays.
func (c *targetConfig) decodeBackoff(text string) error {
	first, most, ranges := strings.Cut(text, "..")
	if !ranges {
		most = first
	}
	var b jobexec.Backoff
	if conf.WholeSeconds(&b.First)(first) != nil || conf.WholeSeconds(&b.Most)(most) != nil || b.First > b.Most {
		return errors.New("FIRST..MOST, as in 10s..1h, with FIRST at most MOST, or one of them; both are whole seconds, or durations such as 90s, 10m, 1h30m or 30d, of at least 1s")
	}
	c.terms.Backoff = b
	return nil
}

// decodeRate takes a number of starts and the time that it is for.
func (c *targetConfig) decodeRate(text string) error {
	number, unit, _ := strings.Cut(text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	starts, err := strconv.Atoi(number)
	if err != nil || per == 0 || starts < 1 || starts > mostStarts {
		return fmt.Errorf("a whole number from 1 to %d and what it is for: a second, a minute or an hour, as in 50/s, 100/m or 1000/h", mostStarts)
	}
	c.terms.Rate = jobexec.Rate{Starts: starts, Per: per}
	return nil
}

// validateTargets finds what is wrong with the sections of targets.
func (c *config) validateTargets(set *conf.Set) {
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		t := c.sections[name]
		if _, served := c.targets[name]; !served {
			t.section.Bad(c.unserved(name))
			continue
		}
		t.validate(set, c)
	}
}

// unserved is what is wrong with a section of a target that is not there.
func (c *config) unserved(name string) string {
	known := slices.Sorted(maps.Keys(c.targets))
	near := conf.Nearest(name, known)
	switch {
	case near != "":
		near = "; the nearest one is " + near
	case len(known) > 0 && len(known) <= mostListed:
		near = ": " + strings.Join(known, ", ")
	}
	return "[targets] has no target of that name; allowed are the names there" + near
}

// mostListed is how many names of targets an error lists.
const mostListed = 10

func (c *targetConfig) validate(set *conf.Set, common *config) {
	given := func(key string) bool { return set.Given(c.section.Key(key)) }
	bad := func(key, why string) { set.Bad(c.section.Key(key), why) }
	rows := common.time.uses
	if c.terms.Attempts > 1 && !again(rows) {
		bad("attempts", "a row that comes back needs columns for that; allowed is 1, or use_columns with run_at, planned_at and attempts")
	}
	c.terms.Rate.Fleet = c.scope == "fleet"
	switch {
	case given("rate_scope") && !given("rate"):
		bad("rate_scope", "there is no rate that it could be about; allowed is rate_scope beside rate")
	case c.terms.Rate.Fleet && len(common.masters.addresses) == 0:
		bad("rate_scope", "there is no master that would share the rate out; allowed is worker, or fleet with master_host and master_port")
	}
	c.validateLauncher(set, &common.launcher)
}

// validateLauncher completes a launcher of the target's own: what it does not say is as the common
// one has it.
func (c *targetConfig) validateLauncher(set *conf.Set, common *launcherConfig) {
	own := &c.launcher
	given := func(key string) bool { return set.Given(c.section.Key(key)) }
	if own.command == "" && own.dir == "" && len(own.extra) == 0 && !slices.ContainsFunc(executorKeys(), given) {
		return
	}
	own.split = common.split
	own.executor.inherit(&common.executor, given)
	if own.words = common.words; own.command != "" {
		own.validateWords(set)
	}
	own.resolve(set)
	if own.command != "" {
		own.warnOfID(set)
	}
	if own.dir != "" {
		own.validateDir(set)
	} else {
		own.dir = common.dir
	}
	own.env = withVariables(common.env, own.extra)
	launcher := own.launcher()
	c.terms.Launcher = &launcher
}

// terms are what is said of the jobs of targets. Where the columns that the table is used with let
// no row come back, none has more than one attempt.
func (c *config) terms(inUse store.Uses) map[string]jobexec.Terms {
	all := make(map[string]jobexec.Terms, len(c.sections))
	for name, t := range c.sections {
		terms := t.terms
		if !again(inUse) {
			terms.Attempts = min(terms.Attempts, 1)
		}
		all[name] = terms
	}
	return all
}

// checkLaunchers looks whether jobs can be started, of all targets.
func (c *config) checkLaunchers() error {
	errs := []error{c.launcher.check()}
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		errs = append(errs, c.sections[name].checkLauncher())
	}
	return errors.Join(errs...)
}

// checkLauncher looks whether the target's own launcher, if there is one, can be executed.
func (c *targetConfig) checkLauncher() error {
	if c.terms.Launcher == nil {
		return nil
	}
	if err := c.terms.Launcher.Check(); err != nil {
		return fmt.Errorf("launcher of %v: it can't be executed: %w", c.section, err)
	}
	return nil
}

// timeConfig says which columns of the table tell when jobs run, and what counts where they don't
// say.
type timeConfig struct {
	columns string     // as given
	uses    store.Uses // the optional columns that are jobd's
	zone    string
	missed  string

	location *time.Location // of zone
}

// missedSkip is the other value of missed; its default is once.
const missedSkip = "skip"

func (c *timeConfig) register(set *conf.Set) {
	set.Add("use_columns", "", "the optional columns of the table that are jobd's: "+strings.Join(store.TimeColumns(), ", ")+"; or all", conf.Text(&c.columns))
	set.Add("time_zone", "UTC", "the zone of schedules whose rows name none, as Europe/Berlin", conf.Text(&c.zone))
	set.Add("missed", "once", "what becomes of a scheduled run that was missed: it is made up for once, or not: skip", conf.OneOf(&c.missed, "once", missedSkip))
}

func (c *timeConfig) validate(set *conf.Set, claimColumn string) {
	c.validateColumns(set)
	if c.uses.Has(claimColumn) {
		set.Bad("claim_column", set.Shown("claim_column", claimColumn)+" is not allowed: use_columns has it, too; allowed is sig, or a column of its own")
	}
	c.validateZone(set)
}

// validateColumns takes the list of columns apart.
func (c *timeConfig) validateColumns(set *conf.Set) {
	if strings.TrimSpace(c.columns) == "" {
		return
	}
	if strings.TrimSpace(c.columns) == "all" {
		c.uses = store.TimeColumns()
		return
	}
	names := strings.Split(c.columns, ",")
	if most := len(store.TimeColumns()); len(names) > 2*most {
		set.Bad("use_columns", fmt.Sprintf("%d names; there are %d optional columns, and allowed is each once", len(names), most))
		return
	}
	sound := true
	for i, name := range names {
		name = strings.TrimSpace(name)
		if why := c.judgeColumn(set, name); why != "" {
			set.Bad("use_columns", fmt.Sprintf("name %d, %s", i+1, why))
			sound = false
		}
		c.uses = append(c.uses, name)
	}
	if !sound {
		c.uses = nil
		return
	}
	if err := store.CheckUses(c.uses); err != nil {
		set.Bad("use_columns", err.Error()+"; allowed is a list that has them, or all")
	}
}

// judgeColumn tells what is wrong with a name behind those that are known by now.
func (c *timeConfig) judgeColumn(set *conf.Set, name string) string {
	all := store.TimeColumns()
	shown := set.Shown("use_columns", name)
	switch {
	case name == "":
		return "is empty; allowed are names with a comma between them, or all"
	case name == "all":
		return "all, stands among others; allowed is all alone, or a list of names"
	case slices.Contains(c.uses, name):
		return shown + ", stands there twice; allowed is each once"
	case slices.Contains(all, name):
		return ""
	}
	near := ""
	if column := conf.Nearest(name, all); column != "" {
		near = "; the nearest known one is " + column
	}
	return fmt.Sprintf("%s, is no optional column of jobd's; allowed are %s, or all%s", shown, strings.Join(all, ", "), near)
}

func (c *timeConfig) validateZone(set *conf.Set) {
	location, err := schedule.Zone(c.zone)
	if err == nil {
		c.location = location
		return
	}
	if set.Shown("time_zone", c.zone) == "its value" {
		err = errors.New("its value is not allowed; allowed is a name of the tz database, as Europe/Berlin, or UTC")
	}
	set.Bad("time_zone", strings.TrimPrefix(err.Error(), "time zone "))
}

func (c *timeConfig) skipMissed() bool { return c.missed == missedSkip }

// again tells whether rows may come back: it takes the columns that say when, and how often they
// were started.
func again(uses store.Uses) bool {
	return uses.Has(store.ColumnRunAt) && uses.Has(store.ColumnPlannedAt) && uses.Has(store.ColumnAttempts)
}
