package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
)

// journalConfig says where a worker's journal is, and how it is kept.
type journalConfig struct {
	jobdaemon.Journal

	index bool // an index of jobs is kept beside it
}

func (c *journalConfig) register(set *conf.Set) {
	set.Group("Trouble")
	c.Of, c.Low = "worker", "no job is claimed"
	c.Register(set, "by the worker's name", ". Events that the table does not show yet stay")
	set.Add("journal_index", "yes", "whether the page and clients find jobs by status, time and words of their output, in an [index](operations.md#the-journal)", conf.YesNo(&c.index))
}

// makeDir says where the journal of the worker of that name is, and makes the folder, with mode
// 0700, if need be: journal_dir; else the state folder that systemd gives; else /var/lib/jobd/NAME
// or, where that can't be made, the same in the user's own state folder. The error names every
// folder that was tried. lookup gives a variable of the environment.
func (c *journalConfig) makeDir(name string, lookup func(variable string) string) (string, error) {
	return firstPrivate(c.candidates(name, lookup))
}

// firstPrivate is the first of the folders that can be made, or is, private and writable.
func firstPrivate(candidates []string) (string, error) {
	var tried []error
	for _, dir := range candidates {
		path, err := jobdaemon.MakePrivate(dir)
		if err == nil {
			return path, nil
		}
		tried = append(tried, cmp.Or(conf.Closed(err, dir), fmt.Errorf("%s: %w", dir, err)))
	}
	return "", fmt.Errorf("journal_dir: no folder for the journal can be written; give one with the key journal_dir\n%w", errors.Join(tried...))
}

// candidates are the folders to try. One that is configured, here or in systemd, has no
// alternative: a journal that moves is a journal lost.
func (c *journalConfig) candidates(name string, lookup func(variable string) string) []string {
	if c.Dir != "" {
		return []string{c.Dir}
	}
	if state, _, _ := strings.Cut(lookup("STATE_DIRECTORY"), ":"); state != "" {
		return []string{state}
	}
	folder := folderName(name)
	candidates := []string{filepath.Join("/var/lib/jobd", folder)}
	state := lookup("XDG_STATE_HOME")
	if home := lookup("HOME"); state == "" && home != "" {
		state = filepath.Join(home, ".local", "state")
	}
	if state != "" {
		candidates = append(candidates, filepath.Join(state, "jobd", folder))
	}
	return candidates
}

// folderName is a worker's name as the name of one folder: the name comes from outside and must not
// lead elsewhere.
func folderName(name string) string {
	name = strings.NewReplacer("/", "_", "\x00", "_").Replace(name)
	if strings.Trim(name, ".") == "" {
		return strings.Repeat("_", len(name))
	}
	return name
}
