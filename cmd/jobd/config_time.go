package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/exec/schedule"
	"jobd/store"
)

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
	for _, key := range []string{"time_zone", "missed"} {
		if set.Given(key) && !c.uses.Has(store.ColumnSchedule) {
			set.Warn(key, "it is not used: it is about schedules, and use_columns has no "+store.ColumnSchedule)
		}
	}
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
	for _, why := range companionless(c.uses) {
		set.Bad("use_columns", why+"; allowed is a list that has them, or all")
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

// companionless is what is wrong with columns that are of no use without others. CheckUses tells of
// the first one; so each gets its turn to be that.
func companionless(uses store.Uses) (wrong []string) {
	for i := range uses {
		err := store.CheckUses(slices.Concat(uses[i:], uses[:i]))
		if err != nil && !slices.Contains(wrong, err.Error()) {
			wrong = append(wrong, err.Error())
		}
	}
	return wrong
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
