package principal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The file of principals: it is read, and read again when it has changed; tokens are looked up in it.

// Keeper holds a file's lines. Its methods are safe for concurrent use; a nil one has no lines.
type Keeper struct {
	path  string
	log   *slog.Logger
	lines atomic.Pointer[[]*Line] // in the order of the file
	fails atomic.Pointer[refused] // why the file as it stands is not used; nil: it is

	// Of Run alone.
	used, seen string // the file as the lines are, and as the last look found it
	told       string // what was wrong with what was seen
}

// refused is why a changed file is not used.
type refused struct {
	since time.Time
	err   error
}

// Refused is since when the file can't be used as it stands, and why; nil: it is used.
func (k *Keeper) Refused() (since time.Time, err error) {
	if k == nil {
		return since, nil
	}
	if now := k.fails.Load(); now != nil {
		return now.since, now.err
	}
	return since, nil
}

// Open reads a file. It fails where that can't be used.
func Open(path string, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{path: path, log: log}
	content, err := read(path)
	if err == nil {
		k.seen = content
		err = k.take(content)
	}
	return k, err
}

// lookInterval is how often a keeper looks at its file: a change counts when two looks have found it the same.
const lookInterval = 400 * time.Millisecond

// Run looks at the file again and again, until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.look()
		}
	}
}

// look ends lines that have expired, and takes what stands in the file where it was changed.
func (k *Keeper) look() {
	for _, l := range *k.lines.Load() {
		switch ended := l.ctx.Err() != nil; {
		case ended && !l.expired(): // the clock was wrong
			k.used = ""
		case !ended && l.expired():
			k.log.Warn("a principal's credential has expired: its links are closed; renew its expires=, or remove its line", "principal", l.Name, "credential", l.how)
			l.end()
		}
	}
	content, err := read(k.path)
	if err == nil && content != k.seen {
		k.seen, k.told = content, ""
	} else if err == nil && content != k.used {
		if err = k.take(content); err == nil {
			k.log.Info("the changed file of principals is used", "file", k.path, "lines", k.Lines())
		}
	}
	before := k.fails.Load()
	switch {
	case err == nil && content == k.used:
		k.fails.Store(nil)
	case err != nil && before == nil:
		k.fails.Store(&refused{time.Now(), err})
	case err != nil:
		k.fails.Store(&refused{before.since, err})
	}
	if err != nil && err.Error() != k.told {
		k.told = err.Error()
		k.log.Error("the changed principals file can't be used; its former lines stay in force: mend it", "error", err)
	}
}

// take puts the lines of a content in place of those before.
func (k *Keeper) take(content string) error {
	lines, err := parse(content)
	if err != nil {
		return fmt.Errorf("%s: %w", k.path, err)
	}
	before := map[string]*Line{}
	if held := k.lines.Load(); held != nil {
		for _, l := range *held {
			before[l.credential] = l
		}
	}
	for i, l := range lines {
		if old := before[l.credential]; old != nil && old.text == l.text && old.ctx.Err() == nil {
			lines[i] = old
			delete(before, l.credential)
		} else if l.Scope.Has(Worker) && l.Targets.all() {
			k.log.Warn("a worker may have all targets: a stolen node could claim every target; name them in place of *", "principal", l.Name, "file", k.path)
		}
	}
	k.lines.Store(&lines)
	for _, l := range before {
		l.end()
	}
	k.used = content
	return nil
}

// find is the first line that has one of the credentials; nil: there is none.
func (k *Keeper) find(credentials ...string) *Line {
	if k == nil {
		return nil
	}
	for _, l := range *k.lines.Load() {
		switch shown := slices.Contains(credentials, l.credential); {
		case shown && l.valid():
			return l
		case shown && l.expired() && time.Now().Unix()-l.late.Swap(time.Now().Unix()) >= 60: // once, until it was quiet for a minute
			k.log.Warn("a client used a credential that has expired: renew its expires=", "principal", l.Name, "credential", l.how)
		}
	}
	return nil
}

// Token is the line of a token; nil: there is none. Digests are compared: time tells nothing about the token.
func (k *Keeper) Token(secret string) *Line {
	if !IsToken(secret) {
		return nil
	}
	return k.Digest(sha256.Sum256([]byte(secret)))
}

// Digest is the line of a token with this digest; nil: there is none.
func (k *Keeper) Digest(digest [sha256.Size]byte) *Line { return k.find(credentialOf(digest)) }

// Proxy is the line of somebody that a proxy names; nil: there is none.
func (k *Keeper) Proxy(user string) *Line { return k.find("proxy:" + user) }

// Certificate is the first line with one of the DNS names in a verified certificate; nil: there is none.
func (k *Keeper) Certificate(names []string) *Line {
	credentials := make([]string, len(names))
	for i, name := range names {
		credentials[i] = "cert:" + name
	}
	return k.find(credentials...)
}

// UID is the line of an account, -1 where that is unknown; nil: there is none.
func (k *Keeper) UID(uid int) *Line { return k.find("uid:" + strconv.Itoa(uid)) }

// Localhost is the line of whoever comes from this host; nil: there is none.
func (k *Keeper) Localhost() *Line { return k.find("localhost") }

// Lines is how many lines there are.
func (k *Keeper) Lines() int {
	if k == nil {
		return 0
	}
	return len(*k.lines.Load())
}

// read reads a file, which others than root and this account must not write or read.
func read(path string) (string, error) {
	const most = 1 << 20
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		err = open(info)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(content) > most {
		return "", fmt.Errorf("%s: too long; allowed: 1 MiB", path)
	}
	return string(content), err
}

// open tells to whom a file is open that it must not be. A group may read it that is root's or this account's.
func open(info fs.FileInfo) error {
	const readByGroup, byOthers = 0o040, 0o026
	stat, mode, us, ours := info.Sys().(*syscall.Stat_t), info.Mode(), uint32(os.Geteuid()), uint32(os.Getegid())
	switch {
	case !mode.IsRegular():
		return errors.New("not a plain file; allowed: one, or a link to one")
	case stat.Uid != 0 && stat.Uid != us:
		return fmt.Errorf("it belongs to account %d; allowed: root and the daemon's, %d: chown it", stat.Uid, us)
	case mode&byOthers != 0 || mode&readByGroup != 0 && stat.Gid != 0 && stat.Gid != ours:
		return fmt.Errorf("others may read or write it (mode %04o, group %d): chmod 0600, or 0640 with root's group or the daemon's, %d",
			mode.Perm(), stat.Gid, ours)
	}
	return nil
}

// A token is jobd_NAME_, 32 random bytes in base62 and a checksum of all that stands before it: scanners find
// those that have leaked, and what has not this form is no token. The file has its digest.
var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	tokenForm  = regexp.MustCompile(`^jobd_[A-Za-z0-9._-]{1,64}_[0-9A-Za-z]{49}$`)
	digestForm = regexp.MustCompile(`^token:sha256:[0-9a-f]{64}$`)
)

// How many digits of a token are secret, and how many are the checksum.
const secretDigits, sumDigits = 43, 6

// IsWord tells whether a text has the form of a name, as the words have for how somebody is known.
func IsWord(text string) bool { return nameForm.MatchString(text) }

// checkName tells why a principal can't have a name.
func checkName(name string) error {
	if !nameForm.MatchString(name) || name == "password" {
		return errors.New("not a name; allowed: 1 to 64 of A-Z, a-z, 0-9 and . _ -, save the word password")
	}
	return nil
}

// NewToken makes a token, and the credential that stands for it in the file.
func NewToken(name string) (token, credential string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	token = "jobd_" + name + "_" + base62(secret, secretDigits)
	token += checksum(token)
	return token, Credential(token), nil
}

// Credential is what stands for a token in the file.
func Credential(token string) string { return credentialOf(sha256.Sum256([]byte(token))) }

func credentialOf(digest [sha256.Size]byte) string {
	return "token:sha256:" + hex.EncodeToString(digest[:])
}

// IsToken tells whether a text has the form of a token, with its checksum.
func IsToken(text string) bool {
	at := len(text) - sumDigits
	return tokenForm.MatchString(text) && checksum(text[:at]) == text[at:]
}

func checksum(text string) string {
	return base62(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))), sumDigits)
}

// base62 is a number of so many digits.
func base62(number []byte, length int) string {
	digits := new(big.Int).SetBytes(number).Text(62)
	return strings.Repeat("0", length-len(digits)) + digits
}
