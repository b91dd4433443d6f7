package journal

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ErrClosed is returned by a journal that was closed.
var ErrClosed = errors.New("journal is closed")

// ErrNoClaim is among the causes where a claim is not in the history, or not any more.
var ErrNoClaim = errors.New("the history has no such claim")

// ErrFull says that the disk has no room; nothing was appended, and the journal is
// intact. The same append may be tried again later.
var ErrFull = errors.New("no space left for the journal")

// DamagedError says that the journal does not hold what was once appended.
type DamagedError struct {
	Seq    uint64 // the first event concerned; 0 where it is not known
	Last   uint64 // the last one; 0 where it is not known
	Detail string
	Err    error // the cause, where another error tells
}

// Error implements error.
func (e *DamagedError) Error() string {
	text := "journal is damaged"
	if e.Seq > 0 {
		text += fmt.Sprintf(" at event %d", e.Seq)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// RemovedError says that what was asked for was removed by retention.
type RemovedError struct {
	First uint64    // the oldest event that is kept
	Since time.Time // when the newest event happened that is not
}

// Error implements error.
func (e *RemovedError) Error() string {
	return fmt.Sprintf("the history up to %s was removed by retention; it is kept from event %d on", stamp(e.Since), e.First)
}

// Anchor is the number and the hash of an event, kept out of reach of everybody who can change the
// journal: a history that was cut off or rewritten disagrees with it.
type Anchor struct {
	Seq  uint64
	Hash Hash
}

// String is the anchor as a line of text: the sequence number in decimal, a blank, the hash in
// hexadecimal.
func (a Anchor) String() string { return fmt.Sprintf("%d %s", a.Seq, a.Hash) }

// ParseAnchor reads what String has written.
func ParseAnchor(text string) (Anchor, error) {
	number, digest, _ := strings.Cut(strings.TrimSpace(text), " ")
	seq, err := strconv.ParseUint(number, 10, 63)
	hash, hexErr := hex.DecodeString(digest)
	if err != nil || hexErr != nil || len(hash) != len(Hash{}) || seq == 0 {
		return Anchor{}, fmt.Errorf("%q is not an anchor; allowed: a sequence number from 1 and, after a blank, a hash of %d hexadecimal digits", text, 2*len(Hash{}))
	}
	return Anchor{seq, Hash(hash)}, nil
}

// ReadAnchors reads a file of anchors, one a line. Empty lines and lines that begin with # are
// passed over.
func ReadAnchors(r io.Reader) ([]Anchor, error) {
	var anchors []Anchor
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		anchor, err := ParseAnchor(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		anchors = append(anchors, anchor)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read anchors: %w", err)
	}
	return anchors, nil
}
