package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/journal/eventlog"
)

// journalConfig says where the journal is, how much of the past it keeps, and how much room it
// needs.
type journalConfig struct {
	dir     string // as configured; makeDir says where the journal is
	log     eventlog.Config
	minFree int64 // bytes
}

func (c *journalConfig) register(set *conf.Set) {
	set.Group("Trouble")
	set.Add("journal_dir", "", "the folder of the journal", conf.NonEmpty(&c.dir)).Without("by the worker's name")
	set.Add("journal_segment_size", "64MiB", "the journal begins a new segment at this size, from 64KiB, and compresses the old one", conf.Size(&c.log.SegmentSize, 64<<10, 1<<40))
	set.Add("journal_segment_age", "24h", "and at this age, from 1s", conf.Duration(&c.log.SegmentAge, time.Second))
	set.Add("journal_retention", "30d", "how long old segments are kept; 0: for ever. Nothing goes that the table does not show yet", conf.Duration(&c.log.Retention, 0))
	set.Add("journal_archive_dir", "", "an existing folder; old segments are moved there instead of being removed", conf.NonEmpty(&c.log.ArchiveDir))
	set.Add("journal_min_free", "64MiB", "no job is claimed while the journal's disk has less room, or less than a tenth of it where that is less", conf.Size(&c.minFree, 0, 1<<40))
}

// shortRetention is too short for any journal: a number below it was hardly meant as seconds.
const shortRetention = time.Hour

func (c *journalConfig) validate(set *conf.Set) {
	if set.Given("journal_retention") && c.log.Retention > 0 && c.log.Retention < shortRetention {
		set.Warn("journal_retention", fmt.Sprintf("history is gone after %v; a number without a unit is seconds, 30d are days", c.log.Retention))
	}
	if c.log.ArchiveDir == "" {
		return
	}
	if info, err := os.Stat(c.log.ArchiveDir); err != nil {
		set.Bad("journal_archive_dir", fmt.Sprintf("%v; allowed is a folder that exists", err))
	} else if !info.IsDir() {
		set.Bad("journal_archive_dir", c.log.ArchiveDir+" is no folder; allowed is a folder that exists")
	}
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
		path, err := makePrivate(dir)
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
	if c.dir != "" {
		return []string{c.dir}
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

// makePrivate makes sure that dir is a folder that only this account can enter and write, and gives
// its absolute path.
func makePrivate(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("not a folder")
	}
	if of, is := info.Sys().(*syscall.Stat_t); is && os.Geteuid() == 0 && of.Uid != 0 {
		return "", fmt.Errorf("it belongs to the account %d, who could lead a worker of root elsewhere by links: run the worker as that account, or give it a folder of its own (chown root)", of.Uid)
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return "", err
		}
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return "", &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	return dir, nil
}
