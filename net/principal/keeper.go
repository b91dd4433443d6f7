package principal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Keeper holds a file of principals, and what it said last. Its methods are safe for concurrent use; those
// that ask for a line may be called on nil, which has none.
type Keeper struct {
	path string
	log  *slog.Logger
	now  atomic.Pointer[held]

	// Of Run alone.
	seen  version // at the last look
	used  version // what the lines are of
	tried version // what the last error is of
	told  string  // that error; "": none
}

// held are the lines of one reading.
type held struct {
	lines []*Line // in the order of the file
	by    map[string]*Line
}

// version tells one state of a file from the next; the zero one is that of no file.
type version struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec // of content, owner or mode
}

func versionOf(info fs.FileInfo) version {
	stat := info.Sys().(*syscall.Stat_t)
	return version{uint64(stat.Dev), stat.Ino, stat.Size, stat.Ctim}
}

// Open reads a file of principals. It fails where the file can't be used.
func Open(path string, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{path: path, log: log}
	k.now.Store(&held{})
	content, _, err := read(path)
	if err == nil {
		err = k.take(content)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Parse makes a keeper of what stands in a file, whose owner and mode are not looked at.
func Parse(content []byte) (*Keeper, error) {
	k := &Keeper{log: slog.New(slog.DiscardHandler)}
	k.now.Store(&held{})
	return k, k.take(content)
}

// lookEvery is how often the file is looked at.
const lookEvery = time.Second

// Run looks at the file until the context ends, and ends lines.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			k.look()
		}
	}
}

// look reads the file where it is another than that in use, and has stayed the same since the last look. One
// that can't be used is read again at each look: what is wrong may be outside it.
func (k *Keeper) look() {
	k.expire(time.Now())
	var now version
	if info, err := os.Stat(k.path); err == nil {
		now = versionOf(info)
	}
	settled := now == k.seen
	if k.seen = now; !settled || now == k.used {
		return
	}
	content, read, err := read(k.path)
	if err == nil {
		err = k.take(content)
	}
	if err != nil {
		if k.told != err.Error() || k.tried != now {
			k.log.Error("the file of principals was changed, and can't be used: what it said before stays", "error", err)
		}
		k.told, k.tried = err.Error(), now
		return
	}
	if k.used = read; k.told != "" {
		k.log.Info("the file of principals can be used again", "file", k.path)
	}
	k.told = ""
}

// expire ends the lines whose time has come.
func (k *Keeper) expire(now time.Time) {
	for _, l := range k.now.Load().lines {
		if l.expired(now) && l.ctx.Err() == nil {
			k.log.Info("a principal's credential has expired", "principal", l.Name, "credential", l.How)
			l.end()
		}
	}
}

// take puts the lines of a content in place of those before.
func (k *Keeper) take(content []byte) error {
	lines, err := parse(string(content))
	if err != nil {
		if k.path != "" {
			err = fmt.Errorf("%s: %w", k.path, err)
		}
		return err
	}
	before, now := k.now.Load(), &held{by: make(map[string]*Line, len(lines))}
	ended, added := len(before.lines), 0
	for _, l := range lines {
		switch old := before.by[l.credential]; {
		case old != nil && old.same(l) && (old.ctx.Err() == nil || old.expired(time.Now())):
			l.end()
			l = old
			ended--
		default:
			if added++; l.Scope.Has(Worker) && l.Targets.All() {
				k.log.Warn("a principal of scope worker has the targets *: a stolen node could claim every target", "principal", l.Name, "file", k.path)
			}
		}
		now.by[l.credential] = l
		now.lines = append(now.lines, l)
	}
	k.now.Store(now)
	for _, l := range before.lines {
		if now.by[l.credential] != l {
			l.end()
		}
	}
	if added+ended > 0 {
		k.log.Info("the file of principals was read", "file", k.path, "lines", len(lines), "new", added, "ended", ended)
	}
	return nil
}

// by is the valid line of a credential; nil: there is none.
func (k *Keeper) by(credential string) *Line {
	if k == nil {
		return nil
	}
	if l := k.now.Load().by[credential]; l.valid(time.Now()) {
		return l
	}
	return nil
}

// Token is the line of a token; nil: there is none. Its digest is looked up: how long that takes tells nothing
// that helps to find the token.
func (k *Keeper) Token(secret string) *Line {
	if !IsToken(secret) {
		return nil
	}
	return k.by(Credential(secret))
}

// Certificate is the first line for one of the DNS names in a client's certificate, which must have been
// verified; nil: there is none.
func (k *Keeper) Certificate(names []string) *Line {
	if k == nil {
		return nil
	}
	for _, l := range k.now.Load().lines {
		if name, is := l.certificate(); is && l.valid(time.Now()) && slices.Contains(names, name) {
			return l
		}
	}
	return nil
}

// UID is the line of an account of this host; nil: there is none, as for -1, an unknown one.
func (k *Keeper) UID(uid int) *Line { return k.by("uid:" + strconv.Itoa(uid)) }

// Localhost is the line of all who come from this host; nil: there is none.
func (k *Keeper) Localhost() *Line { return k.by("localhost") }

// Lines is how many lines there are.
func (k *Keeper) Lines() int {
	if k == nil {
		return 0
	}
	return len(k.now.Load().lines)
}

// mostBytes is how long a file may be.
const mostBytes = 1 << 20

// read reads a file, which must be nobody's business but root's and this account's. The version is what it
// was before.
func read(path string) (content []byte, _ version, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return nil, version{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		err = closed(info)
	}
	if err != nil {
		return nil, version{}, fmt.Errorf("%s: %w", path, err)
	}
	content, err = io.ReadAll(io.LimitReader(file, mostBytes+1))
	if err == nil && len(content) > mostBytes {
		err = fmt.Errorf("%s: it is too long; allowed is 1 MiB", path)
	}
	return content, versionOf(info), err
}

// closed tells why others than root and this account can write or read a file, if so. Its group may read it
// where that is root's or this account's: mode 0640, owner root, group jobd.
func closed(info fs.FileInfo) error {
	const groupWrites, groupReads, others = 0o020, 0o040, 0o006
	stat, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
	own := stat.Gid == 0 || int(stat.Gid) == os.Getegid()
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is no plain file; allowed is one, or a link to one")
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to account %d; allowed are root and the daemon's account, %d", stat.Uid, os.Geteuid())
	case mode&others != 0 || mode&groupWrites != 0 || mode&groupReads != 0 && !own:
		return fmt.Errorf("others can read or write it (mode %04o, group %d); allowed is 0600, or 0640 with group 0 or the daemon's, %d: chmod 600",
			mode, stat.Gid, os.Getegid())
	}
	return nil
}
