package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	jobexec "jobd/exec"
)

// executorConfig says how a launcher runs jobs, and how processes are kept for it.
type executorConfig struct {
	mode   string // as given: of a command only, and of a process each unless said otherwise
	keep   jobexec.Keep
	secret string // signs requests over HTTP

	runs    jobexec.Mode // how it runs jobs, by command and mode together; "": there is a mistake
	service jobexec.Service
}

// The keys of how a launcher runs jobs.
const (
	keyMode   = "launcher_mode"
	keySecret = "launcher_secret"
	keyBoot   = "boot_timeout"
	keyJobs   = "max_jobs"
)

// keepKeys are the keys of processes that are kept.
var keepKeys = []string{keyJobs, "max_age", "max_memory", "idle_timeout", keyBoot, "launcher_watch"}

// executorKeys are the keys of how a launcher runs jobs.
func executorKeys() []string { return append(slices.Clone(keepKeys), keyMode, keySecret) }

// The bounds of keys about kept processes.
const (
	leastMemory = 1 << 20 // less than any interpreter has
	mostMemory  = 1 << 50
	longestBoot = time.Hour
)

// keys is what keys are registered with: those of the program, or of a section.
type keys interface {
	Add(key, def, usage string, decode conf.Decode) *conf.Setting
}

// register registers the keys; def are the defaults of some, which the common launcher has.
func (c *executorConfig) register(set keys, def map[string]string) {
	add := func(key, usage string, decode conf.Decode) *conf.Setting {
		return set.Add(key, def[key], usage, decode)
	}
	add(keyMode, "what a job of the command is: a process of its own, a fork of one that is kept, or a turn of a pool", decodeMode(&c.mode))
	add(keyJobs, "jobs after which a kept process is replaced; 0: never", conf.Int(&c.keep.MaxJobs, 0, math.MaxInt32))
	add("max_age", "age at which a kept process is replaced; 0: never", orNever(&c.keep.MaxAge))
	add("max_memory", "memory beyond which a kept process is replaced; 0: never", decodeMemory(&c.keep.MaxMemory))
	add("idle_timeout", "how long a kept process may be without a job before it ends; 0: for ever", orNever(&c.keep.IdleTimeout))
	add(keyBoot, "how long a kept process may take until it is ready", decodeBoot(&c.keep.BootTimeout))
	add("launcher_watch", "replace kept processes when a file of the command has changed", conf.Bool(&c.keep.Watch))
	add(keySecret, "what requests to an http launcher are signed with; better kept in the file", conf.NonEmpty(&c.secret)).Secret().Kept()
}

// decodeMode takes a word. That of a mode which is gone is told what to say instead.
func decodeMode(field *string) conf.Decode {
	modes := []string{string(jobexec.ModeProcess), string(jobexec.ModeFork), string(jobexec.ModePool)}
	return func(text string) error {
		err := conf.OneOf(field, modes...)(text)
		if err != nil && text == "spare" {
			err = errors.New("process, which is about as fast, or pool (there is no spare any more)")
		}
		return err
	}
}

// orNever takes whole seconds, or 0 for never.
func orNever(field *time.Duration) conf.Decode {
	return func(text string) error {
		if length, err := conf.ParseDuration(text); err == nil && length == 0 {
			*field = 0
			return nil
		}
		if err := conf.WholeSeconds(field)(text); err != nil {
			return fmt.Errorf("0 for never, %w", err)
		}
		return nil
	}
}

func decodeMemory(field *int64) conf.Decode {
	return func(text string) error {
		if conf.Size(field, 0, 0)(text) == nil || conf.Size(field, leastMemory, mostMemory)(text) == nil {
			return nil
		}
		return errors.New("0 for never, or a size such as 256MiB, from 1MiB to 1PiB")
	}
}

func decodeBoot(field *time.Duration) conf.Decode {
	return func(text string) error {
		var length time.Duration
		if conf.WholeSeconds(&length)(text) != nil || length > longestBoot {
			return errors.New("whole seconds, or a duration such as 90s or 2m, from 1s to 1h")
		}
		*field = length
		return nil
	}
}

// inherit takes from the common launcher what the target's own does not say. A mode is about
// commands: where the common launcher is a service, it has none to give.
func (c *executorConfig) inherit(common *executorConfig, given func(key string) bool) {
	if !given(keyMode) {
		c.mode = common.mode
	}
	if !given(keySecret) { // as which the content of its file counts, too
		c.secret = common.secret
	}
	own, keep := c.keep, common.keep
	for key, take := range map[string]func(){
		keyJobs:          func() { keep.MaxJobs = own.MaxJobs },
		"max_age":        func() { keep.MaxAge = own.MaxAge },
		"max_memory":     func() { keep.MaxMemory = own.MaxMemory },
		"idle_timeout":   func() { keep.IdleTimeout = own.IdleTimeout },
		keyBoot:          func() { keep.BootTimeout = own.BootTimeout },
		"launcher_watch": func() { keep.Watch = own.Watch },
	} {
		if given(key) {
			take()
		}
	}
	c.keep = keep
}

// resolve finds how the command runs jobs. It notes what can't be right.
func (c *launcherConfig) resolve(set *conf.Set) {
	key, modeKey := c.prefix+"launcher", c.prefix+keyMode
	e := &c.executor
	e.runs = jobexec.Mode(e.mode)
	service, is, err := parseService(c.words)
	switch {
	case err != nil:
		if set.Given(key) { // else the common one is what is wrong
			set.Bad(key, err.Error())
		}
		e.runs = ""
	case is:
		e.runs = service.Mode
		e.service = service
		e.service.Secret = ""
		if service.Mode == jobexec.ModeHTTP {
			e.service.Secret = e.secret
		}
		if set.Given(modeKey) {
			set.Bad(modeKey, "the launcher is "+serviceInWords(service.Mode)+", which has no mode; allowed is launcher_mode beside a command")
		}
	case e.runs.Pooled() && strings.Contains(strings.Join(c.words, " "), "{id}"):
		c.refuseID(set)
	}
}

// refuseID notes that a command has an id in it whose processes are for many jobs.
func (c *launcherConfig) refuseID(set *conf.Set) {
	const why = "its processes are started before there is a job, and are told of each by a line `run ID …` on descriptor 3"
	key, modeKey := c.prefix+"launcher", c.prefix+keyMode
	mode := c.executor.mode
	switch {
	case set.Given(key) && set.Given(modeKey):
		set.Bad(key, fmt.Sprintf("{id} can't stand in it with launcher_mode = %s: %s; allowed is a command without {id}, whose script reads such lines, as those in examples/launchers do: php /srv/app/jobs.php", mode, why))
	case set.Given(key):
		set.Bad(key, fmt.Sprintf("{id} can't stand in it, because the common launcher_mode, %s, holds for it: %s; allowed is a command without {id}, or launcher_mode = process beside it", mode, why))
	default:
		set.Bad(modeKey, fmt.Sprintf("%s is not allowed with the common launcher, which has {id} in it: %s; allowed is it beside a launcher of the target's own, without {id}", mode, why))
	}
}

// warnOfID tells of a launcher whose jobs do not know which they are.
func (c *launcherConfig) warnOfID(set *conf.Set) {
	if len(c.words) == 0 || strings.Contains(c.command, "{id}") {
		return
	}
	switch c.executor.runs {
	case jobexec.ModeProcess:
		text := "there is no {id} in it, so the command will not know which job it is for"
		if !set.Given(c.prefix + keyMode) {
			text += "; a script that is told of each of its jobs needs launcher_mode = fork or pool beside it, which is not set"
		}
		set.Warn(c.prefix+"launcher", text)
	case jobexec.ModeHTTP:
		set.Warn(c.prefix+"launcher", "there is no {id} in it, so only the header Jobd-Id tells the service which job it is for")
	}
}
