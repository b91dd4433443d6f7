package principal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// Line is one credential, with what it may do.
type Line struct {
	Name    string
	Scope   Scope
	Targets Targets
	How     string    // it is known by: "token", "certificate", "uid" or "localhost"
	Expires time.Time // zero: never

	credential string // as it stands in the file, with a digest in small letters and an account by its number
	ctx        context.Context
	end        context.CancelFunc
}

// Done is closed when the line has left the file, was changed, or has expired: its links end then. It is nil
// for a line that is in no file.
func (l *Line) Done() <-chan struct{} {
	if l.ctx == nil {
		return nil
	}
	return l.ctx.Done()
}

// AfterDone calls f in a goroutine of its own when Done is closed, unless stop is called before, which tells
// whether it was in time.
func (l *Line) AfterDone(f func()) (stop func() bool) {
	if l.ctx == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(l.ctx, f)
}

// same tells whether two lines give the same.
func (l *Line) same(other *Line) bool {
	return l.Name == other.Name && l.Scope == other.Scope && l.Targets.String() == other.Targets.String() &&
		l.credential == other.credential && l.Expires.Equal(other.Expires)
}

// certificate is the name that a certificate must have.
func (l *Line) certificate() (name string, is bool) { return strings.CutPrefix(l.credential, "cert:") }

func (l *Line) expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

// valid tells whether it lets in who comes now.
func (l *Line) valid(now time.Time) bool { return l != nil && !l.expired(now) && l.ctx.Err() == nil }

// mostLines is how many credentials a file may hold.
const mostLines = 10_000

// parse reads the lines of a file.
func parse(content string) ([]*Line, error) {
	var lines []*Line
	has := map[string]int{} // where a credential stands
	number := 0
	for text := range strings.Lines(content) {
		number++
		fields := strings.Fields(text)
		for i, field := range fields {
			if field[0] == '#' {
				fields = fields[:i]
				break
			}
		}
		if len(fields) == 0 {
			continue
		}
		l, err := parseLine(fields)
		switch {
		case err != nil:
		case has[l.credential] > 0:
			err = fmt.Errorf("it has the credential of line %d; allowed is one line for each", has[l.credential])
		case len(lines) == mostLines:
			err = fmt.Errorf("it is one too many; allowed are %d", mostLines)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		has[l.credential] = number
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(fields []string) (*Line, error) {
	const columns = 4
	if len(fields) < columns {
		return nil, errors.New("too few words; it needs a name, a scope, targets and a credential, with blanks between them")
	}
	l := &Line{Name: fields[0]}
	err := checkName(l.Name)
	if err != nil {
		return nil, fmt.Errorf("the first word, the name: %w", err)
	}
	if l.Scope, err = ParseScope(fields[1]); err != nil {
		return nil, fmt.Errorf("the second word, the scope: %w", err)
	}
	if l.Targets, err = ParseTargets(fields[2]); err != nil {
		return nil, fmt.Errorf("the third word, the targets: %w", err)
	}
	if l.How, l.credential, err = parseCredential(fields[3]); err != nil {
		return nil, fmt.Errorf("the fourth word, the credential: %w", err)
	}
	for _, option := range fields[columns:] {
		key, value, _ := strings.Cut(option, "=")
		if key != "expires" || !l.Expires.IsZero() {
			return nil, errors.New("what follows the credential: allowed is expires=, once")
		}
		if l.Expires, err = ParseTime(value); err != nil {
			return nil, fmt.Errorf("expires: %w", err)
		}
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l, nil
}

// ParseTime reads when a line expires.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil && !at.IsZero() {
			return at.UTC(), nil
		}
	}
	return time.Time{}, errors.New("not a time; allowed are a day, which begins in UTC, as 2027-01-01, and a time, as 2027-01-01T12:00:00Z")
}

// parseCredential tells how somebody is known, and by what.
func parseCredential(text string) (how, credential string, err error) {
	kind, value, _ := strings.Cut(text, ":")
	switch {
	case text == "localhost":
		return "localhost", text, nil
	case kind == "token":
		digest, is := strings.CutPrefix(strings.ToLower(text), credentialOf)
		if raw, err := hex.DecodeString(digest); !is || err != nil || len(raw) != 32 {
			return "", "", errors.New("not a token's digest; allowed is token:sha256: and 64 hexadecimal digits, which jobctl token check makes of a token")
		}
		return "token", credentialOf + digest, nil
	case kind == "cert":
		if value == "" || strings.Contains(value, "*") {
			return "", "", errors.New("not a name in a certificate; allowed is a DNS name (subjectAltName), without wildcards, as cert:node-7.example.com")
		}
		return "certificate", text, nil
	case kind == "uid":
		uid, err := uidOf(value)
		return "uid", "uid:" + strconv.Itoa(uid), err
	case strings.HasPrefix(text, tokenPrefix):
		return "", "", errors.New("a token; its digest belongs here, which jobctl token check makes of it")
	}
	return "", "", errors.New("allowed are token:sha256:HEX, cert:NAME, uid:ACCOUNT and localhost")
}

// uidOf is the number of an account, which may be given by its name.
func uidOf(account string) (int, error) {
	const none = 1<<32 - 1 // the kernel's -1
	if uid, err := strconv.ParseUint(account, 10, 32); err == nil && uid != none {
		return int(uid), nil
	}
	known, err := user.Lookup(account)
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		return -1, errors.New("no such account in /etc/passwd; allowed are the name of one, and its number")
	case err != nil:
		return -1, fmt.Errorf("its account is not known: %w", err)
	}
	return strconv.Atoi(known.Uid)
}
