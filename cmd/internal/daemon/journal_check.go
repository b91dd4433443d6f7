package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// Look is --check of a journal in the first of the folders that a start would take: it looks as a
// start would find it, makes nothing and takes no lock. held judges which process has the journal, 0
// where none has; nil: the report names it.
func (c *Journal) Look(ctx context.Context, candidates []string, held func(what string, pid int) []check.Finding) []check.Finding {
	dir, exists, tried := FindJournal(candidates)
	if dir == "" {
		return []check.Finding{{
			Level: check.Wrong, What: "journal", Detail: strings.Join(tried, "; "),
			Remedy: "the key journal_dir gives another folder", Ends: true,
		}}
	}
	what := "journal " + dir
	var findings []check.Finding
	if !exists {
		findings = append(findings, check.Finding{What: what, Detail: "will be made"})
	}
	if holder, pid := JournalHolder(dir); held != nil {
		findings = append(findings, held(what, pid)...)
	} else if pid != 0 {
		findings = append(findings, check.Finding{What: what, Detail: "in use by " + holder + ": this " + c.Of + ", if it runs"})
	}
	if closed := closedFile(dir); closed != nil {
		findings = append(findings, check.Finding{Level: check.Wrong, What: what, Detail: closed.Error(), Ends: true})
	} else if exists {
		findings = append(findings, c.history(ctx, what, dir)...)
	}
	findings = append(findings, c.room(what, dir))
	if archive := c.Log.ArchiveDir; archive != "" {
		f := check.Finding{What: "journal_archive_dir " + archive, Detail: "can be written"}
		if err := unix.Access(archive, unix.W_OK|unix.X_OK); err != nil {
			f.Level, f.Detail, f.Remedy = check.Wrong, err.Error(), "make it a folder that this account can write: old segments stay in the journal until then"
		}
		findings = append(findings, f)
	}
	return findings
}

// FindJournal is the first of the folders that can be written, or made, and whether it is there already;
// else why there is none.
func FindJournal(candidates []string) (dir string, exists bool, tried []string) {
	for _, candidate := range candidates {
		dir, err := filepath.Abs(candidate)
		if err == nil {
			exists, err = couldWrite(dir)
		}
		if err == nil {
			return dir, exists, nil
		}
		tried = append(tried, cmp.Or(conf.Closed(err, candidate), fmt.Errorf("%s: %w", candidate, err)).Error())
	}
	return "", false, tried
}

// couldWrite tells whether a folder can be written, or made.
func couldWrite(dir string) (exists bool, err error) {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue
		case err != nil:
			return false, err
		case !info.IsDir():
			return false, fmt.Errorf("%s is not a folder", at)
		}
		var system unix.Statfs_t
		if unix.Statfs(at, &system) == nil && (system.Type == unix.PROC_SUPER_MAGIC || system.Type == unix.SYSFS_MAGIC) {
			return false, fmt.Errorf("%s belongs to the kernel: no folder can be made there", at)
		}
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			return false, &fs.PathError{Op: "write", Path: at, Err: err}
		}
		if at == dir && info.Mode().Perm() != 0o700 && !ownedByMe(info) { // a start closes it to others
			return false, &fs.PathError{Op: "chmod", Path: at, Err: unix.EPERM}
		}
		return at == dir, nil
	}
}

// closedFile says which file of the journal is another account's, and closed to this one.
func closedFile(dir string) error {
	entries, _ := os.ReadDir(dir) // what can't be read is told by FindJournal
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := entry.Info(); err != nil || ownedByMe(info) || unix.Access(path, unix.R_OK|unix.W_OK) == nil {
			continue
		}
		return conf.Closed(&fs.PathError{Op: "write", Path: path, Err: unix.EACCES}, dir)
	}
	return nil
}

// ownedByMe tells whether this account may change a folder's mode.
func ownedByMe(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	return !known || me == 0 || int(stat.Uid) == me
}

// locksLooks is how often the kernel's list of locks is read before a lock is taken for given up.
const locksLooks = 5

// JournalHolder is the process that has the journal in a folder, in words and by its id, which it has
// written into the lock; 0 where there is none, or it can't be found.
func JournalHolder(dir string) (words string, pid int) {
	path := filepath.Join(dir, "lock")
	var file unix.Stat_t
	signed, err := os.ReadFile(path)
	if _, none := fmt.Sscanf(string(signed), "process %d ", &pid); cmp.Or(err, none, unix.Stat(path, &file)) != nil {
		return "", 0
	}
	// The kernel gives its list a page at a time: where others take and give up locks meanwhile, a look may miss one.
	for range locksLooks {
		locks, _ := os.ReadFile("/proc/locks")
		for line := range strings.Lines(string(locks)) {
			// 1: FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF
			fields := strings.Fields(line)
			if len(fields) > 5 && fields[1] == "FLOCK" && fields[4] == strconv.Itoa(pid) && strings.HasSuffix(fields[5], fmt.Sprintf(":%d", file.Ino)) {
				return fmt.Sprintf("process %d", pid), pid
			}
		}
	}
	return "", 0
}

// history verifies what a start relies on.
func (c *Journal) history(ctx context.Context, what, dir string) []check.Finding {
	r, err := replay.Open(dir)
	if err == nil {
		err = verify.Sound(ctx, r.Folder())
	}
	var damaged *journal.DamagedError
	switch {
	case errors.Is(err, replay.ErrNone), errors.Is(err, fs.ErrNotExist):
		return []check.Finding{{What: what, Detail: "empty; the first start begins the journal"}}
	case errors.As(err, &damaged):
		return []check.Finding{{
			Level: check.Wrong, What: what, Detail: err.Error(), Ends: true,
			Remedy: "keep the folder to examine it later, and give the " + c.Of + " an empty one (docs/operations.md)",
		}}
	case err != nil:
		return []check.Finding{{Level: check.Wrong, What: what, Detail: cmp.Or(conf.Closed(err, dir), err).Error(), Ends: ctx.Err() == nil}}
	}
	newest, err := r.Newest(ctx)
	if err != nil {
		return []check.Finding{{Level: check.Wrong, What: what, Detail: err.Error()}}
	}
	return []check.Finding{{What: what, Detail: fmt.Sprintf("sound as far as a start relies on it, up to event %d", newest)}}
}

// room compares what the journal's disk has with what it needs.
func (c *Journal) room(what, dir string) check.Finding {
	free, need, err := c.Room(dir)
	if err != nil {
		return check.Finding{Level: check.Wrong, What: what, Detail: err.Error()}
	}
	f := check.Finding{What: what, Detail: fmt.Sprintf("%d MiB are free on its disk", free>>20)}
	if free < need {
		f.Level, f.Remedy = check.Wrong, fmt.Sprintf("make room: below %d MiB %s (key journal_min_free)", need>>20, c.Low)
	}
	return f
}

// Room is what the disk of a folder, which may not be there yet, has free, and how much it needs.
func (c *Journal) Room(dir string) (free, need int64, err error) {
	free, total, err := check.Free(dir)
	for err != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		free, total, err = check.Free(dir)
	}
	return free, min(c.MinFree, total/10), err
}
