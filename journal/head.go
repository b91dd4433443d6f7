package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The head file holds the highest sequence number that was acknowledged, and its
// hash, outside the database: a write-ahead log that lost its end reads like a shorter
// but sound journal, and only this file tells (pitfall 21).
//
// It is written after each commit and before anyone is told, without an fsync
// of its own: after a power cut it may be older than the journal, which is harmless, never newer.
const headFile = "head"

const headFormat = "jobd-head %020d %s\n"

var headSize = len(fmt.Sprintf(headFormat, 0, Hash{}))

type head struct{ f *os.File }

// openHead opens the head file for writing, making it where it is missing.
func openHead(dir string) (*head, error) {
	f, err := os.OpenFile(filepath.Join(dir, headFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal head: %w", err)
	}
	return &head{f}, nil
}

// write replaces the content; it is shorter than a sector, so it is never torn.
func (h *head) write(seq uint64, hash Hash) error {
	if _, err := h.f.WriteAt(fmt.Appendf(nil, headFormat, seq, hash), 0); err != nil {
		return fmt.Errorf("write journal head: %w", err)
	}
	return nil
}

func (h *head) close() error {
	return errors.Join(h.f.Sync(), h.f.Close())
}

// readHead gives the acknowledged sequence number and hash; 0 where the journal has
// acknowledged nothing yet.
func readHead(dir string) (uint64, Hash, error) {
	data, err := os.ReadFile(filepath.Join(dir, headFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return 0, Hash{}, nil
	}
	if err != nil {
		return 0, Hash{}, fmt.Errorf("read journal head: %w", err)
	}
	var seq uint64
	var text string
	var hash Hash
	if _, err := fmt.Sscanf(string(data), "jobd-head %d %s\n", &seq, &text); err != nil || len(data) != headSize {
		return 0, Hash{}, &DamagedError{Detail: "the head file is not readable"}
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(hash) {
		return 0, Hash{}, &DamagedError{Detail: "the head file's hash is not readable"}
	}
	copy(hash[:], raw)
	return seq, hash, nil
}
