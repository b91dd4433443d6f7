package operator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
)

var (
	// errNoPassword says that a daemon wants a password, and none was given.
	errNoPassword = errors.New("a password or token is needed; give it in ~/.jobctl.conf, as JOBCTL_PASSWORD or with --password")
	// errSilent says that no answer came in time.
	errSilent = errors.New("no answer")
	// errWrongDaemon says that another daemon is there than the one that was meant.
	errWrongDaemon = errors.New("this is the wrong daemon")
)

// IsPassword tells whether the daemon answered nothing for want of the right password.
func IsPassword(err error) bool {
	return errors.Is(err, errNoPassword) || jobnet.CodeOf(err) == jobnet.CodePassword
}

// unanswered is why a request has no answer. Unless ErrUnsent is among the causes, the daemon may
// have done what it was asked for.
type unanswered struct {
	typ string
	err error
}

// Error implements error.
func (u *unanswered) Error() string { return u.err.Error() }

// Unwrap gives the cause.
func (u *unanswered) Unwrap() error { return u.err }

// Unanswered tells whether no answer came to a request.
func Unanswered(err error) bool {
	var u *unanswered
	return errors.As(err, &u)
}

// LeftOpen tells whether err leaves open what became of a request of this type.
func LeftOpen(err error, typ string) bool {
	var u *unanswered
	return errors.As(err, &u) && u.typ == typ && !errors.Is(err, jobnet.ErrUnsent)
}

// MayBeDone says that nobody knows whether a request was carried out, where it has no answer.
func MayBeDone(err error, typ string) error {
	if !LeftOpen(err, typ) {
		return err
	}
	return fmt.Errorf("%w; the request (%s) may have been carried out", err, typ)
}

// Texts of peers, of any version: that the table can't be read now, and that a target is not served, which has
// several wordings on the wire.
var (
	tableAway  = regexp.MustCompile(`the database (is away|could not be reached)|can't be (read|listed) now`)
	noWorker   = regexp.MustCompile(`^worker serving (target '.*') not found`)
	notServing = regexp.MustCompile(`^(?:invalid (target '.*')|(target '.*') not found)(?: \(job id=.*\))?`)
)

// said is what a peer said instead of an answer. That the table is away has an exit code of its own.
func said(text string, code jobnet.Code) error {
	text = noWorker.ReplaceAllString(screen.Clean(text), "no worker serves $1")
	text = notServing.ReplaceAllString(text, "the worker does not serve $1$2")
	err := error(&jobnet.RemoteError{Text: text, Code: code})
	if tableAway.MatchString(text) {
		return exit.With(exit.Unknown, err)
	}
	return err
}

// isSaid tells whether err is a peer's own word on what it was asked for.
func isSaid(err error) bool {
	var said *jobnet.RemoteError
	return errors.As(err, &said) && !IsPassword(err)
}

// isOlder tells whether a peer does not know what it was asked for.
func isOlder(err error) bool { return err != nil && jobnet.CodeOf(err) == jobnet.CodeUnknown }

// allOlder tells whether none of several peers knows what it was asked for.
func allOlder(err error) bool {
	several, is := err.(interface{ Unwrap() []error })
	return is && !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !isOlder(err) })
}

// older explains the error of a peer that does not know a request; any other stays as it is.
func older(typ string, err error) error {
	switch {
	case !isOlder(err):
		return err
	case strings.HasPrefix(typ, "journal-"):
		return fmt.Errorf("it does not serve its journal, because it is an older jobd, or the original; its folder can be read with --journal DIR: %w", err)
	}
	return fmt.Errorf("it can't report this, because it is an older jobd, or the original: %w", err)
}

// errAnother says that what is there now is not what was followed.
var errAnother = errors.New("the worker has another journal now: it ends before the last event shown")

// Mended tells whether an error of a request may be over in a moment: of the link to the daemon, of
// that between a master and its worker, or of a runner that is just being lost.
func Mended(err error) bool {
	var answer *jobnet.RemoteError
	if !errors.As(err, &answer) {
		return !errors.Is(err, errAnother) && !errors.Is(err, errNoPassword) && !errors.Is(err, errWrongDaemon)
	}
	return answer.Code == jobnet.CodeNotFound || answer.Text == "connection lost" || answer.Text == history.ErrUnknown.Error() ||
		strings.Contains(answer.Text, context.DeadlineExceeded.Error()) || strings.Contains(answer.Text, "the runner was lost") ||
		strings.Contains(answer.Text, "the runner does not answer")
}

// unasked says that nobody could be asked for the password.
type unasked struct{ error }

func (e *unasked) Unwrap() error { return e.error }

// Awaited tells whether an error may be over after a while: all but those that only somebody who
// asks otherwise can mend.
func Awaited(err error) bool {
	var unasked *unasked
	return !errors.As(err, &unasked) && !IsPassword(err) && jobnet.CodeOf(err) != jobnet.CodeForbidden && exit.Code(err) != exit.Usage && exit.Code(err) != exit.NoJob && !errors.Is(err, errWrongDaemon) && !isOlder(err) &&
		!strings.Contains(err.Error(), jobnet.PlainRefused) && !strings.Contains(err.Error(), "failed to verify certificate")
}
