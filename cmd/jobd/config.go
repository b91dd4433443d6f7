package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
)

// program is this program's name, with which the report of --check begins.
const program = "jobd"

// config is everything that jobd can be told; docs/configuration.md describes the keys. On SIGHUP
// jobd reads it again as a whole, and takes over the targets and what is said of their jobs, the
// launcher, the zone of schedules and the log levels.
type config struct {
	jobdaemon.Settings
	values conf.Values

	name     string
	masters  masterConfig
	store    storeConfig
	time     timeConfig
	launcher launcherConfig
	targets  map[string]int           // concurrency by name
	sections map[string]*targetConfig // what is said of some targets, by name
	jobs     jobsConfig

	targetPlaces map[string]string // where each target was given, for what is found to be wrong with it later

	journal journalConfig
}

// parseConfig reads the configuration: see jobdaemon.Settings.
func parseConfig(args, environ []string, stdout io.Writer) (c config, err error) {
	err = c.Read(about(), &c, args, environ, stdout)
	return c, err
}

// about says what the program is.
func about() conf.Program {
	return conf.Program{
		Name:    program,
		Summary: "jobd runs the jobs of a table's rows, for the targets it serves.",
		Prefix:  environPrefix,
		File:    "/etc/jobd.conf",
	}
}

// Register registers all keys, in the order of the help.
func (c *config) Register(set *conf.Set) {
	c.Listen.Register(set)
	c.HTTP.Register(set)
	set.Add("name", "", "this worker's name, which no other worker of its table has; the host's name if not given", conf.NonEmpty(&c.name))
	c.masters.register(set)
	c.Log.Register(set)
	c.store.register(set)
	c.time.register(set)
	c.launcher.register(set)
	c.journal.register(set)
	c.jobs.register(set)
	set.AddSection("targets", "a target to serve, and how many of its jobs may run at once", c.addTarget)
	set.AddSections(targetSection, c.addTargetTerms)
}

// Validate finds what is wrong with values that could be decoded.
func (c *config) Validate(set *conf.Set, environ []string) {
	c.masters.validate(set)
	c.store.validate(set)
	c.time.validate(set, c.store.claimColumn)
	c.launcher.validate(set, environ)
	c.journal.validate(set)
	if len(c.targets) == 0 {
		set.Missing("[targets]: at least one target is required, as in: name = 4")
	}
	c.validateTargets(set)
	if c.name == "" {
		c.name = defaultName(set, environ)
	}
	c.values, c.targetPlaces = set.Values(), placesOfTargets(set, c.targets)
}

// nameVariable gives the name of a worker that is given none otherwise. Unlike JOBD_NAME it leaves
// the file's key in force, so that the unit for several workers on a host can set it.
const nameVariable = environPrefix + "DEFAULT_NAME"

func defaultName(set *conf.Set, environ []string) string {
	for _, variable := range environ {
		if name, found := strings.CutPrefix(variable, nameVariable+"="); found && name != "" {
			return name
		}
	}
	name, err := os.Hostname()
	if err != nil {
		set.Bad("name", fmt.Sprintf("required, because the host's name is not known: %v", err))
	}
	return name
}

// addTarget takes one line of [targets]. The name null is reserved for
// rows without a target.
func (c *config) addTarget(name, text string) error {
	if name == "null" {
		return errors.New("any name but null, which is reserved")
	}
	if c.targets == nil {
		c.targets = map[string]int{}
	}
	var concurrency int
	if err := conf.Int(&concurrency, 1, math.MaxInt)(text); err != nil {
		// The target is there all the same: one mistake is told once.
		c.targets[name] = 1
		return err
	}
	c.targets[name] = concurrency
	if concurrency > manyJobs {
		return conf.Odd(fmt.Sprintf("%d jobs may run at once, each with a process of its own; is that what this host can bear?", concurrency))
	}
	return nil
}

// manyJobs is more jobs at once than a host usually has processes.
const manyJobs = 10000

// placesOfTargets says for each target where it was given.
func placesOfTargets(set *conf.Set, targets map[string]int) map[string]string {
	places := make(map[string]string, len(targets))
	for name := range targets {
		places[name] = set.Place("targets." + name)
	}
	return places
}

// jobsConfig says how jobs are treated.
type jobsConfig struct {
	maxOutputBuffer int64 // bytes kept of stdout and of stderr, each
	prefetch        int   // jobs claimed beyond the free slots of a target; onePerSlot: as many as it has slots
	pollInterval    time.Duration
	launchOffline   bool          // start jobs whose running is not mirrored yet
	requeueCrashed  bool          // run a job again whose outcome is unknown
	maxAttempts     int           // how often at most
	shutdownTimeout time.Duration // 0: no limit
	lostAfter       time.Duration
	handover        bool // leave running jobs to the runner on stop
}

// onePerSlot is the default of prefetch.
const onePerSlot = -1

func (c *jobsConfig) register(set *conf.Set) {
	var word string
	choice := func(chosen *bool, first, second string) conf.Decode {
		oneOf := conf.OneOf(&word, first, second)
		return func(text string) error {
			err := oneOf(text)
			*chosen = err == nil && text == second
			return err
		}
	}
	set.Add("max_output_buffer", "1MiB", "kept of a job's stdout, and of its stderr", conf.Size(&c.maxOutputBuffer, 1, 1<<30))
	set.Add("prefetch", "1 per slot", "jobs claimed beyond a target's free slots", c.decodePrefetch)
	set.Add("poll_interval", "30", "also poll about this often; 0: only when asked, at start and after an outage", conf.Duration(&c.pollInterval, 0))
	set.Add("launch_offline", "wait", "while the database is away: wait, or run on the journal alone", choice(&c.launchOffline, "wait", "run"))
	set.Add("on_crash", "fail", "what becomes of a job whose outcome is unknown: fail or requeue", choice(&c.requeueCrashed, "fail", "requeue"))
	set.Add("max_attempts", "3", "how often a job is started at most, with on_crash = requeue", conf.Int(&c.maxAttempts, 1, math.MaxInt))
	set.Add("shutdown_timeout", "30", "what running jobs get on SIGTERM before it is passed on to them; 0: no limit", conf.Duration(&c.shutdownTimeout, 0))
	set.Add("lost_after", "5m", "how long rows are left alone that bear a mark of this worker's name and are unknown to its new journal", conf.Duration(&c.lostAfter, 0))
	set.Add("on_stop", "drain", "on SIGTERM drain, or handover: leave running jobs to the next start", choice(&c.handover, "drain", "handover"))
}

func (c *jobsConfig) decodePrefetch(text string) error {
	if text == "1 per slot" {
		c.prefetch = onePerSlot
		return nil
	}
	if conf.Int(&c.prefetch, 0, math.MaxInt)(text) != nil {
		return errors.New("a whole number of at least 0, or: 1 per slot")
	}
	return nil
}
