package main

import (
	"errors"
	"fmt"
	"iter"
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
	terms    jobexec.Terms
	launcher launcherConfig
	launches bool // something is said of its launcher
}

// What a target's terms may be at most: as many attempts as their column counts, and a rate that no
// host reaches.
const (
	mostAttempts = math.MaxUint16
	mostStarts   = 1_000_000
)

// target is what is said of a target. Its launcher begins as the common one, whose keys are decoded
// before any with a name in them.
func (c *config) target(names []string) *targetConfig {
	name := names[0]
	if c.sections[name] == nil {
		t := &targetConfig{launcher: c.launcher}
		t.launcher.prefix, t.launcher.extra = keyOf(name, ""), nil
		if c.sections == nil {
			c.sections = map[string]*targetConfig{}
		}
		c.sections[name] = t
	}
	return c.sections[name]
}

// keyOf is a key of a target's section.
func keyOf(name, key string) string { return targetSection + "." + name + "." + key }

// addTarget declares the keys of the sections of targets.
func (c *config) addTarget(set *conf.Set) {
	set.Group("One target")
	add := func(key, def, usage string, field func(t *targetConfig) conf.Decode) *conf.Setting {
		return set.AddNamed(keyOf("NAME", key), def, usage, func(names []string) conf.Decode { return field(c.target(names)) }).Live()
	}
	add("attempts", "", "the most starts of a job until it succeeds, up to 65535. More than 1 needs `use_columns` with `run_at`, `planned_at` and `attempts`",
		func(t *targetConfig) conf.Decode { return conf.Int(&t.terms.Attempts, 1, mostAttempts) }).Without("1")
	add("backoff", "10s..1h", "FIRST..MOST: the wait before the next attempt, doubled each time up to MOST, give or take a fifth; a single value is constant. Whole seconds",
		func(t *targetConfig) conf.Decode { return t.decodeBackoff })
	add("timeout", "", "how long a job may run, in whole seconds; then its process group gets SIGTERM and it has failed",
		func(t *targetConfig) conf.Decode { return conf.WholeSeconds(&t.terms.Timeout, conf.Longest) })
	add("kill_after", "10s", "how long after that the group gets SIGKILL; whole seconds",
		func(t *targetConfig) conf.Decode { return conf.WholeSeconds(&t.terms.KillAfter, conf.Longest) })
	add("rate", "", "how many jobs are started at most: `50/s`, `100/m` or `1000/h`",
		func(t *targetConfig) conf.Decode { return t.decodeRate })
	add("rate_scope", "worker", "whose starts count: this `worker`'s",
		func(*targetConfig) conf.Decode { return decodeRateScope })
	addLauncher(set, keyOf("NAME", ""), func(names []string) *launcherConfig {
		t := c.target(names)
		t.launches = true
		return &t.launcher
	})
}

// decodeBackoff takes FIRST..MOST, or one duration that stays.
func (c *targetConfig) decodeBackoff(text string) error {
	first, most, ranges := strings.Cut(text, "..")
	if !ranges {
		most = first
	}
	var b jobexec.Backoff
	if conf.WholeSeconds(&b.First, conf.Longest)(first) != nil || conf.WholeSeconds(&b.Most, conf.Longest)(most) != nil || b.First > b.Most {
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
		return fmt.Errorf("a whole number from 1 to %d per second, minute or hour, as in 50/s, 100/m or 1000/h", mostStarts)
	}
	c.terms.Rate.Starts, c.terms.Rate.Per = starts, per
	return nil
}

// decodeRateScope takes what is left of the scopes.
func decodeRateScope(text string) error {
	if text != "worker" {
		return errors.New("worker (there is no fleet any more: give each worker its part of the rate)")
	}
	return nil
}

// validateTargets finds what is wrong with the sections of targets.
func (c *config) validateTargets(set *conf.Set, environ []string) {
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		if _, served := c.targets[name]; !served {
			set.BadSection(targetSection, name, c.unserved(name))
			continue
		}
		c.validateTarget(set, name, c.sections[name], environ)
	}
}

// unserved is what is wrong with a section of a target that is not there.
func (c *config) unserved(name string) string {
	near := conf.Nearest(name, slices.Sorted(maps.Keys(c.targets)))
	if near != "" {
		near = "; the nearest one is " + near
	}
	return "[targets] has no target of that name; allowed: the names there" + near
}

func (c *config) validateTarget(set *conf.Set, name string, t *targetConfig, environ []string) {
	if t.terms.Attempts > 1 && !again(c.time.uses) {
		set.Bad(keyOf(name, "attempts"), "a second attempt needs columns for it; allowed: 1, or use_columns with run_at, planned_at and attempts")
	}
	if t.launches {
		t.launcher.validate(set, &c.launcher, environ)
		launcher := t.launcher.launcher()
		t.terms.Launcher = &launcher
	}
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

// checkLaunchers looks whether jobs can be started, of all targets. That is no part of reading the
// configuration: what is missing may be there by the time that the worker starts, and the other way
// round.
func (c *config) checkLaunchers() error {
	var errs []error
	for what, launcher := range c.launchers() {
		if why, remedy := lacksRights(launcher); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s; %s", what, why, remedy))
		} else if err := launcher.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: it can't be executed: %w", what, err))
		}
	}
	return errors.Join(errs...)
}

// launchers are the common launcher, and those of targets, each under the name that messages give it.
func (c *config) launchers() iter.Seq2[string, jobexec.Launcher] {
	return func(yield func(string, jobexec.Launcher) bool) {
		if !yield("launcher", c.launcher.launcher()) {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(c.sections)) {
			if own := c.sections[name].terms.Launcher; own != nil && !yield(fmt.Sprintf("launcher of [%s %s]", targetSection, name), *own) {
				return
			}
		}
	}
}

// timeConfig says which columns of the table tell when jobs run, and what counts where they don't
// say.
type timeConfig struct {
	columns string     // as given
	uses    store.Uses // the optional columns that are jobd's
	zone    string

	location   *time.Location // of zone
	skipMissed bool
}

func (c *timeConfig) register(set *conf.Set) {
	columns := "`" + strings.Join(store.TimeColumns(), "`, `") + "`"
	set.Group("Time")
	set.Add("use_columns", "", "the optional columns that jobd may use, with commas: "+columns+"; or `all`. jobd ignores the others", conf.Text(&c.columns))
	set.Add("time_zone", "UTC", "the zone of schedules whose rows name none, from the tz database: `Europe/Berlin`. `Local` and offsets are refused", conf.Text(&c.zone)).Live()
	set.Add("missed", "once", "after missed scheduled runs: one run (`once`), or none (`skip`)", conf.Either(&c.skipMissed, "once", "skip")).Live()
}

func (c *timeConfig) validate(set *conf.Set, claimColumn string) {
	c.validateColumns(set)
	if c.uses.Has(claimColumn) {
		set.Bad("claim_column", set.Shown("claim_column", claimColumn)+" is not allowed: use_columns has it, too; allowed: sig, or a column of its own")
	}
	c.validateZone(set)
}

// validateColumns takes the list of columns apart.
func (c *timeConfig) validateColumns(set *conf.Set) {
	all := store.TimeColumns()
	switch strings.TrimSpace(c.columns) {
	case "":
		return
	case "all":
		c.uses = all
		return
	}
	sound := true
	bad := func(name, why string) {
		set.Bad("use_columns", set.Shown("use_columns", name)+" "+why)
		sound = false
	}
	for name := range strings.SplitSeq(c.columns, ",") {
		name = strings.TrimSpace(name)
		near := conf.Nearest(name, all)
		if near != "" {
			near = "; the nearest known one is " + near
		}
		switch {
		case slices.Contains(c.uses, name):
			bad(name, "stands there twice; allowed: each once")
		case !slices.Contains(all, name):
			bad(name, "is not an optional column of jobd's; allowed: "+strings.Join(all, ", ")+", or all"+near)
		}
		c.uses = append(c.uses, name)
	}
	if err := store.CheckUses(c.uses); sound && err != nil {
		set.Bad("use_columns", err.Error()+"; allowed: a list that has them, or all")
	}
}

func (c *timeConfig) validateZone(set *conf.Set) {
	location, err := schedule.Zone(c.zone)
	if err == nil {
		c.location = location
		return
	}
	if set.Shown("time_zone", c.zone) == "its value" {
		err = errors.New("its value is not allowed; allowed: a name of the tz database, as Europe/Berlin, or UTC")
	}
	set.Bad("time_zone", strings.TrimPrefix(err.Error(), "time zone "))
}

// again tells whether rows may come back: it takes the columns that say when, and how often they
// were started.
func again(uses store.Uses) bool {
	return uses.Has(store.ColumnRunAt) && uses.Has(store.ColumnPlannedAt) && uses.Has(store.ColumnAttempts)
}
