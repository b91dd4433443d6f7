package exec

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// A worker claims only while it holds its name and its mark among all workers of the table:
// advisory locks, which end with their connection. A row with this mark and a claim that the
// journal does not know is then one that this worker's own lost journal knew, and no living
// worker's.

// identity is what the worker knows of its name and mark. The worker's mutex guards it.
type identity struct {
	mark    string    // of new claims
	checked time.Time // when both were last known to be held; zero: they are not
	why     string    // why they are not; "" where that is not known yet
	rest    board.Backoff
	named   bool      // the name was this worker's in this run
	taken   time.Time // since when another worker is known to have it, before it ever was ours; zero: it is not known
}

const (
	identityAge   = 2 * time.Second // until it is checked again whether name and mark are held
	firstIdentity = 100 * time.Millisecond
	longIdentity  = 5 * time.Second
	mostMarks     = 1000 // that are tried
)

// NameTakenError says that another worker has this one's name.
type NameTakenError struct {
	Name   string
	Holder string // who it is, as the table knows it
}

// Error implements error.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the name %s is another worker's on this table: %s; give each worker a name of its own (key name)", e.Name, e.Holder)
}

// formerError says that a former connection of this worker, which the table has not missed yet,
// holds its name.
type formerError struct {
	name   string
	holder string
}

// Error implements error.
func (e *formerError) Error() string {
	return fmt.Sprintf("the name %s is held by a former connection of this worker: %s; waiting for its end", e.name, e.holder)
}

var errNoMark = errors.New("no mark is free for this worker's claims")

// Identify takes this worker's name and mark for itself. It fails with a *NameTakenError when
// another worker has the name; the claim loop tries again. Jobs that are claimed already go on in
// any case: what guards them is the whole token.
func (w *Worker) Identify(ctx context.Context) error {
	w.identifying.Lock()
	defer w.identifying.Unlock()
	mark, err := w.takeMark(ctx) // first: it protects the rows of a worker whose name somebody else has taken
	if err == nil {
		err = w.takeName(ctx)
	}
	if err == nil && mark != w.knownMark() { // only then it is used
		_, err = w.append(journal.Draft{Payload: journal.Marked{Mark: mark}})
	}
	if err == nil {
		w.learnClock(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.identity.checked = time.Time{}
		w.identity.noteTaken(err)
		return err
	}
	w.identity = identity{mark: mark, checked: time.Now(), named: true}
	return nil
}

// noteTaken notes since when another worker has the name. What is no answer says nothing of that.
func (i *identity) noteTaken(err error) {
	var taken *NameTakenError
	var former *formerError
	switch {
	case errors.As(err, &former):
		i.taken = time.Time{}
	case errors.As(err, &taken) && !i.named && i.taken.IsZero():
		i.taken = time.Now()
	}
}

// LookAtTable has the worker take its name and mark anew, where they may be lost. A table that is
// out of reach is noticed by that, though there is nothing to claim.
func (w *Worker) LookAtTable() {
	w.mu.Lock()
	w.identity.checked = time.Time{}
	w.mu.Unlock()
	w.wake()
}

// giveUpName tells whoever started the worker that the name is another one's, once that is no
// matter of a moment: it never was ours, and there is no job that has to go on. A worker that had
// the name waits for it.
func (w *Worker) giveUpName(err error) {
	var taken *NameTakenError
	if w.OnNameTaken == nil || !errors.As(err, &taken) {
		return
	}
	w.mu.Lock()
	i := &w.identity
	hopeless := !i.named && !i.taken.IsZero() && time.Since(i.taken) >= w.NamePatience && w.board.Jobs() == 0
	w.mu.Unlock()
	if hopeless {
		w.OnNameTaken(taken)
	}
}

// takeName takes the worker's name.
func (w *Worker) takeName(ctx context.Context) error {
	holder, err := w.Table.Hold(ctx, "name:"+w.Name)
	if err != nil || holder == "" {
		return err
	}
	if mark := w.knownMark(); mark != "" {
		of, err := w.Table.Hold(ctx, "mark:"+mark)
		if err != nil {
			return err
		}
		if of == holder {
			return &formerError{w.Name, holder}
		}
	}
	return &NameTakenError{w.Name, holder}
}

// takeMark takes a mark that no other worker has: the journal's, if it can be had; else one that no
// row bears either, which may be the row of a worker that can't reach the table at the moment.
func (w *Worker) takeMark(ctx context.Context) (string, error) {
	known := w.knownMark()
	candidates := []string{known}
	for n := range mostMarks {
		candidates = append(candidates, markOf(w.Name, n))
	}
	for _, mark := range candidates {
		if mark == "" {
			continue
		}
		if mark != known {
			rows, err := w.Table.UnderWay(ctx, "@"+mark, nil)
			if err != nil {
				return "", err
			}
			if len(rows) > 0 {
				continue
			}
		}
		holder, err := w.Table.Hold(ctx, "mark:"+mark)
		if err != nil {
			return "", err
		}
		if holder != "" {
			continue
		}
		return mark, nil
	}
	return "", errNoMark
}

// knownMark is the mark that the journal has for this worker.
func (w *Worker) knownMark() (mark string) {
	w.Recorder.View(func(s *journal.State) { mark = s.Mark })
	return mark
}

// identified tells whether the worker's name and mark are held. Where they were not looked at for a
// while it looks. Its error concerns everything.
func (w *Worker) identified(ctx context.Context) (bool, error) {
	w.mu.Lock()
	held, rests := w.identity.held(), !w.identity.rest.Due.IsZero()
	w.mu.Unlock()
	if held || rests {
		return held, nil
	}
	err := w.Identify(ctx)
	if err == nil || concernsAll(ctx, err) {
		return err == nil, err
	}
	defer w.giveUpName(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if why := err.Error(); why != w.identity.why {
		w.identity.why = why
		w.Logger.Error("nothing is claimed: name and mark are not this worker's; trying again", "error", err)
	}
	w.identity.rest.Grow(time.Now(), firstIdentity, longIdentity)
	return false, nil
}

// missing is why name and mark are not held, as far as was last known; "" where they are.
func (i *identity) missing() string {
	if !i.checked.IsZero() {
		return ""
	}
	return cmp.Or(i.why, "name and mark are not taken yet")
}

// held tells whether name and mark were held a moment ago.
func (i *identity) held() bool {
	return !i.checked.IsZero() && time.Since(i.checked) < identityAge
}

// A claim's token is ten characters: "@", the four of the worker's mark, five random ones. It
// stands in the row's owner column while the claim holds. No two workers that live have the same
// mark.

// tokenAlphabet is lower-case base32: safe in every character set and collation.
const tokenAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// newToken makes the token of a new claim.
func newToken(mark string) string {
	var random [5]byte
	rand.Read(random[:]) // never fails
	return "@" + mark + letters(random[:])
}

// markOf is a mark for a worker's name: the one that a worker of this name tries first, or, for n
// above 0, a further one.
func markOf(name string, n int) string {
	if n > 0 {
		name += "#" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(name))
	return letters(sum[:4])
}

func letters(b []byte) string {
	text := make([]byte, len(b))
	for i := range b {
		text[i] = tokenAlphabet[b[i]%32]
	}
	return string(text)
}

// IsMarkOf tells whether a mark is one of those that a worker of this name tries first. Others may
// come to the same.
func IsMarkOf(mark, name string) bool {
	const likely = 10
	for n := range likely {
		if markOf(name, n) == mark {
			return true
		}
	}
	return false
}
