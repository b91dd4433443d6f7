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

// A worker claims only while it holds its name and its worker id (the journal's mark) among all workers
// of the table: advisory locks, which end with their connection. So a row with this worker id, and with
// a claim that the journal does not know, belongs to no living worker: this worker's own lost journal
// knew it.

// identity is what the worker knows of its own name and worker id. The worker's mutex guards it.
type identity struct {
	workerID string    // of new claims
	checked  time.Time // when both were last known to be held; zero: they are not held
	why      string    // why they are not; "" where that is not known yet
	since    time.Time // since when that is so
	rest     board.Backoff
}

const (
	identityAge   = 2 * time.Second // until the worker checks again that it holds name and worker id
	firstIdentity = 100 * time.Millisecond
	longIdentity  = 5 * time.Second
	mostWorkerIDs = 1000 // that are tried
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

var errNoWorkerID = errors.New("no worker id is free for this worker's claims")

// Identify takes this worker's name and worker id for itself. It fails with a *NameTakenError when
// another worker has the name; the claim loop tries again. Jobs that are claimed already go on in
// any case: what guards them is the whole token.
func (w *Worker) Identify(ctx context.Context) error {
	w.identifying.Lock()
	defer w.identifying.Unlock()
	workerID, err := w.takeWorkerID(ctx) // first: it protects the rows of a worker whose name somebody else has taken
	if err == nil {
		err = w.takeName(ctx)
	}
	if err == nil && workerID != w.knownWorkerID() { // only then it is used
		_, err = w.append(journal.Draft{Payload: journal.Marked{Mark: workerID}})
	}
	if err == nil {
		w.learnClock(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.identity.checked = time.Time{}
		return err
	}
	w.identity = identity{workerID: workerID, checked: time.Now()}
	return nil
}

// LookAtTable has the worker take its name and worker id anew, where they may be lost. So the worker
// notices that the table is out of reach, even when there is nothing to claim.
func (w *Worker) LookAtTable() {
	w.mu.Lock()
	w.identity.checked = time.Time{}
	w.mu.Unlock()
	w.wake()
}

// takeName takes the worker's name.
func (w *Worker) takeName(ctx context.Context) error {
	holder, err := w.Table.Hold(ctx, "name:"+w.Name)
	if err != nil || holder == "" {
		return err
	}
	if workerID := w.knownWorkerID(); workerID != "" {
		of, err := w.Table.Hold(ctx, "mark:"+workerID)
		if err != nil {
			return err
		}
		if of == holder {
			return &formerError{w.Name, holder}
		}
	}
	return &NameTakenError{w.Name, holder}
}

// takeWorkerID takes a worker id that no other worker has: the journal's, if it is free; else one that no
// row bears either. Such a row may belong to a worker that can't reach the table at the moment.
func (w *Worker) takeWorkerID(ctx context.Context) (string, error) {
	known := w.knownWorkerID()
	for n := -1; n < mostWorkerIDs; n++ {
		workerID := known
		if n >= 0 {
			workerID = workerIDOf(w.Name, n)
		}
		if workerID == "" {
			continue
		}
		if workerID != known {
			rows, err := w.Table.UnderWay(ctx, "@"+workerID, nil)
			if err != nil {
				return "", err
			}
			if len(rows) > 0 {
				continue
			}
		}
		holder, err := w.Table.Hold(ctx, "mark:"+workerID)
		if err != nil {
			return "", err
		}
		if holder != "" {
			continue
		}
		return workerID, nil
	}
	return "", errNoWorkerID
}

// knownWorkerID is the worker id that the journal has for this worker.
func (w *Worker) knownWorkerID() (workerID string) {
	w.Recorder.View(func(s *journal.State) { workerID = s.Mark })
	return workerID
}

// identified tells whether the worker holds its name and worker id. Where the last check was a while ago
// it checks. Its error concerns everything.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.identity.why == "" {
		w.identity.since = time.Now()
	}
	if why := err.Error(); why != w.identity.why {
		w.identity.why = why
		w.Logger.Error("nothing is claimed: this worker does not hold its name and id; trying again", "error", err)
	}
	w.identity.rest.Grow(time.Now(), firstIdentity, longIdentity)
	return false, nil
}

// missing is why name and worker id are not held, as of the last check; "" where they are.
func (i *identity) missing() string {
	if !i.checked.IsZero() {
		return ""
	}
	return cmp.Or(i.why, "name and worker id are not held yet")
}

// held tells whether name and worker id were held a moment ago.
func (i *identity) held() bool {
	return !i.checked.IsZero() && time.Since(i.checked) < identityAge
}

// A claim's token is ten characters: "@", the four of the worker's id, five random ones. It stands in
// the row's owner column while the claim holds. No two workers that live have the same id.

// tokenAlphabet is lower-case base32: safe in every character set and collation.
const tokenAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// newToken makes the token of a new claim.
func newToken(workerID string) string {
	var random [5]byte
	rand.Read(random[:]) // never fails
	return "@" + workerID + letters(random[:])
}

// workerIDOf is a worker id for a name: the one that a worker of this name tries first, or, for n above
// 0, a further one.
func workerIDOf(name string, n int) string {
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

// IsWorkerIDOf tells whether a worker id is one of those that a worker of this name tries first. Workers
// of other names may come to the same id.
func IsWorkerIDOf(workerID, name string) bool {
	const likely = 10
	for n := range likely {
		if workerIDOf(name, n) == workerID {
			return true
		}
	}
	return false
}

// WorkerIDIn is the id of the worker that a claim's token tells of; "" where it is no token.
func WorkerIDIn(token string) string {
	if len(token) != len("@idid12345") || token[0] != '@' {
		return ""
	}
	return token[1:5]
}
