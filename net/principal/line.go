package principal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// What a line of the file says: who somebody is, what they may ask, and of which targets.

// Session is who asks, and what it may do.
type Session struct {
	Name    string // of the principal; "": nobody has a name here
	How     string // it is known: token, certificate, uid, proxy, password, localhost
	Address string // where it comes from
	Master  string // that passed its request on, as "master 10.0.0.9:7081"; "": none did

	Scope   Scope
	Targets Targets

	line *Line // of the file; nil: none
}

// Known is the session of a peer without a line in the file: it may do everything.
func Known(name, how, address string) *Session {
	return &Session{Name: name, How: how, Address: address, Scope: everything, Targets: allTargets}
}

const everything = Status | Read | Submit | Run | Admin | Worker

var allTargets, _ = ParseTargets("*")

// Of is the session of a peer that a line of the file lets in.
func (l *Line) Of(address string) *Session {
	return &Session{Name: l.Name, How: l.how, Address: address, Scope: l.Scope, Targets: l.Targets, line: l}
}

// Line is the session's credential; nil: it has none of its own.
func (s *Session) Line() *Line { return s.line }

// OnEnd calls a function when the session's credential is gone. The function that it gives ends that.
func (s *Session) OnEnd(do func()) (stop func() bool) {
	if s.line == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(s.line.ctx, do)
}

// Who names somebody in a sentence.
func (s *Session) Who() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Master != "":
		return s.Master
	}
	return s.Address
}

// All tells whether somebody has all targets.
func (s *Session) All() bool { return s.Targets.all() }

// Has tells which targets somebody has; nil: all.
func (s *Session) Has() func(target string) bool {
	if s == nil || s.All() {
		return nil
	}
	return s.Targets.Reach
}

// Rights name whose rights a session has, and which: what one has opened with them, others may not go on with.
func (s *Session) Rights() string { return s.Name + " " + s.Scope.String() + " " + s.Targets.String() }

// Everything tells whether somebody has each right.
func (s *Session) Everything() bool { return s.Scope == everything }

// By is how the journal and the log name somebody: "ann (token, 10.0.0.5:41234) via master 10.0.0.9:7081".
func (s *Session) By() string {
	by := s.Address
	if s.Name != "" {
		by = fmt.Sprintf("%s (%s)", s.Name, strings.Trim(s.How+", "+s.Address, ", "))
	}
	switch {
	case s.Master == "":
		return by
	case by == "":
		return s.Master
	}
	return by + " via " + s.Master
}

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

// Scope is a set of rights.
type Scope uint8

// The rights; docs/security.md says what each is for.
const (
	Status Scope = 1 << iota
	Read
	Submit
	Run
	Admin
	Worker
)

// scopes are the words of a file, each with its right and all that it gives; who gives more stands first.
var scopes = []struct {
	word       string
	right, all Scope
}{
	{"admin", Admin, Status | Read | Submit | Run | Admin},
	{"run", Run, Status | Read | Submit | Run},
	{"read", Read, Status | Read},
	{"submit", Submit, Submit},
	{"status", Status, Status},
	{"worker", Worker, Worker},
}

// ParseScope gives the rights of a word.
func ParseScope(word string) (Scope, error) {
	for _, s := range scopes {
		if s.word == word {
			return s.all, nil
		}
	}
	return 0, errors.New("not a scope; allowed: status, read, submit, run, admin and worker")
}

// Has tells whether one of the rights in need is in s.
func (s Scope) Has(need Scope) bool { return s&need != 0 }

// String is the word that gives the rights, or that a single one is named by; else such words with + between.
func (s Scope) String() string {
	var words []string
	for _, known := range scopes {
		if s.Has(known.right) {
			words = append(words, known.word)
			s &^= known.all
		}
	}
	return strings.Join(words, "+")
}

// Targets are those that a principal reaches: names, patterns that end with /*, or * alone. The zero
// value reaches none.
type Targets struct{ names []string }

// ParseTargets reads a list with commas.
func ParseTargets(text string) (Targets, error) {
	names := strings.Split(text, ",")
	odd := slices.ContainsFunc(names, func(name string) bool {
		name = strings.TrimSuffix(name, "/*")
		return name == "" || strings.ContainsFunc(name, unfit)
	})
	if odd && text != "*" {
		return Targets{}, errors.New("not a list of targets; allowed: NAME,NAME, with NAME/* for all below NAME/, and * alone for all")
	}
	return Targets{names}, nil
}

// unfit is about a rune that has a meaning in the file, that nobody sees, or that stands for what is no UTF-8.
func unfit(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("* #\ufffd", r) }

// all tells whether these are all targets.
func (t Targets) all() bool { return slices.Contains(t.names, "*") } // which stands alone

// Reach tells whether a target is among them. NAME/* reaches what goes on behind NAME/, at any depth, and
// not NAME itself.
func (t Targets) Reach(target string) bool {
	return t.all() || slices.ContainsFunc(t.names, func(name string) bool {
		stem, pattern := strings.CutSuffix(name, "*")
		rest, within := strings.CutPrefix(target, stem)
		return within && pattern == (rest != "")
	})
}

// String is the list as it stands in a file.
func (t Targets) String() string { return strings.Join(t.names, ",") }
