package principal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Line is one credential, with what it may do.
type Line struct {
	Name    string
	Scope   Scope
	Targets Targets
	Expires time.Time // zero: never

	how        string          // it is known: token, certificate, uid, proxy or localhost
	credential string          // as in the file: a digest in small letters, an account by its number
	text       string          // as in the file, to tell whether it was changed
	late       atomic.Int64    // when it was shown last after it had expired, in unix seconds
	ctx        context.Context // ends when the line is removed or changed, or expires
	end        context.CancelFunc
}

func (l *Line) expired() bool { return !l.Expires.IsZero() && !time.Now().Before(l.Expires) }

// valid tells whether the line lets in who comes now.
func (l *Line) valid() bool { return l.ctx.Err() == nil && !l.expired() }

// mostLines is how many credentials a file may have.
const mostLines = 10_000

// parse reads the lines of a file.
func parse(content string) (lines []*Line, err error) {
	numbers := map[string]int{} // of the lines, by credential
	number := 0
	for text := range strings.Lines(content) {
		number++
		text, _, _ = strings.Cut(text, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		l, err := parseLine(words)
		switch {
		case err != nil:
		case numbers[l.credential] > 0:
			err = fmt.Errorf("line %d has this credential, too; allowed: one line for each", numbers[l.credential])
		case len(lines) == mostLines:
			err = fmt.Errorf("too many credentials; allowed: %d", mostLines)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		numbers[l.credential] = number
		lines = append(lines, l)
	}
	if content == "" {
		return nil, errors.New("it is empty, so it may be cut off; allowed: a comment alone, which lets nobody in")
	}
	if !strings.HasSuffix(content, "\n") {
		return nil, fmt.Errorf("line %d: it has no end of line, so the file may be cut off there: end it with a newline", number)
	}
	return lines, nil
}

func parseLine(words []string) (*Line, error) {
	if len(words) < 4 || len(words) > 5 {
		return nil, errors.New("allowed: NAME SCOPE TARGETS CREDENTIAL, and behind them expires=TIME")
	}
	l := &Line{Name: words[0], text: strings.Join(words, " ")}
	var scope, targets, credential, expires error
	l.Scope, scope = ParseScope(words[1])
	l.Targets, targets = ParseTargets(words[2])
	l.how, l.credential, credential = parseCredential(words[3])
	if len(words) == 5 {
		l.Expires, expires = parseExpires(words[4])
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l, cmp.Or(checkName(l.Name), scope, targets, credential, expires)
}

func parseExpires(word string) (at time.Time, err error) {
	text, is := strings.CutPrefix(word, "expires=")
	if at, err = time.Parse(time.DateOnly, text); err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	if !is || err != nil || at.IsZero() {
		return at, errors.New("not an option; allowed: expires=2027-01-01, which is 0:00 UTC, or expires=2027-01-01T12:00:00Z")
	}
	return at, nil
}

// parseCredential tells how a principal is known, and by what.
func parseCredential(word string) (how, credential string, err error) {
	switch kind, value, _ := strings.Cut(word, ":"); {
	case word == "localhost":
		return word, word, nil
	case kind == "token" && digestForm.MatchString(strings.ToLower(word)):
		return kind, strings.ToLower(word), nil
	case kind == "token" || strings.HasPrefix(word, "jobd_"):
		return "", "", errors.New("not a token's digest; allowed: token:sha256:HEX, which jobctl token check makes of a token")
	case kind == "cert" && value != "" && !strings.Contains(value, "*"):
		return "certificate", word, nil
	case kind == "cert":
		return "", "", errors.New("not a certificate's name; allowed: cert:NAME, a DNS name (subjectAltName) without wildcards")
	case kind == "proxy" && value != "":
		return kind, word, nil
	case kind == "uid":
		uid, err := uidOf(value)
		return kind, "uid:" + uid, err
	}
	return "", "", errors.New("not a credential; allowed: token:sha256:HEX, cert:NAME, uid:ACCOUNT, proxy:USER and localhost")
}

// uidOf is the number of an account that is given by its name or number.
func uidOf(account string) (string, error) {
	const none = 1<<32 - 1 // the kernel's -1
	if uid, err := strconv.ParseUint(account, 10, 32); err == nil && uid != none {
		return strconv.FormatUint(uid, 10), nil
	}
	known, err := user.Lookup(account)
	if errors.As(err, new(user.UnknownUserError)) {
		return "", errors.New("not an account of this host; allowed: uid:NAME with a name of /etc/passwd, and uid:NUMBER")
	} else if err != nil {
		return "", fmt.Errorf("the account can't be looked up: %w", err)
	}
	return known.Uid, nil
}
