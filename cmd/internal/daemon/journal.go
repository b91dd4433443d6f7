package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/journal/eventlog"
)

// Journal says where a journal is, how much of the past it keeps, and how much room it needs.
type Journal struct {
	Of      string // whose it is: "worker" or "master"
	Low     string // what holds while its disk has too little room
	Dir     string // as configured; "": nothing was said
	Log     eventlog.Config
	MinFree int64 // bytes
}

// Register registers the keys. without is the folder where none is given; keeps says what is kept
// longer than the retention.
func (c *Journal) Register(set *conf.Set, without, keeps string) {
	set.Add("journal_dir", "", "the folder of the journal", conf.NonEmpty(&c.Dir)).Without(without)
	set.Add("journal_segment_size", "64MiB", "the journal begins a new segment at this size, from 64KiB, and compresses the old one", conf.Size(&c.Log.SegmentSize, 64<<10, 1<<40))
	set.Add("journal_segment_age", "24h", "the journal begins a new segment at this age, from 1s", conf.Duration(&c.Log.SegmentAge, time.Second))
	set.Add("journal_retention", "30d", "how long old segments are kept; 0: for ever"+keeps, conf.Duration(&c.Log.Retention, 0))
	set.Add("journal_archive_dir", "", "an existing folder to which old segments are moved", conf.NonEmpty(&c.Log.ArchiveDir))
	set.Add("journal_min_free", "64MiB", c.Low+" while the journal's disk has less free space than this, capped at a tenth of the disk", conf.Size(&c.MinFree, 0, 1<<40))
}

// shortRetention is too short for any journal: a number below it was hardly meant as seconds.
const shortRetention = time.Hour

// Validate finds what is wrong with values that could be decoded.
func (c *Journal) Validate(set *conf.Set) {
	if set.Given("journal_retention") && c.Log.Retention > 0 && c.Log.Retention < shortRetention {
		set.Warn("journal_retention", fmt.Sprintf("history is removed after %v; a number without a unit means seconds, 30d means days", c.Log.Retention))
	}
	if c.Log.ArchiveDir == "" {
		return
	}
	if info, err := os.Stat(c.Log.ArchiveDir); err != nil {
		set.Bad("journal_archive_dir", fmt.Sprintf("%v; allowed: a folder that exists", err))
	} else if !info.IsDir() {
		set.Bad("journal_archive_dir", c.Log.ArchiveDir+" is not a folder; allowed: a folder that exists")
	}
}

// MakePrivate makes sure that dir is a folder that only this account can enter and write, and gives
// its absolute path.
func MakePrivate(dir string) (string, error) {
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
		return "", fmt.Errorf("it belongs to the account %d, which could redirect a daemon of root with links: run the daemon as that account, or give it a folder of its own (chown root)", of.Uid)
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
