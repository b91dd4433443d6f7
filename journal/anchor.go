package journal

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Anchor is the number and the hash of an event, kept where whoever can change the journal cannot
// reach: a history that was cut off or rewritten disagrees with it.
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
		return Anchor{}, fmt.Errorf("%q is no anchor; allowed is a sequence number from 1 and, after a blank, a hash of %d hexadecimal digits", text, 2*len(Hash{}))
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
