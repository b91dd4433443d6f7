package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/segment"
)

// The head file holds the highest sequence number that was acknowledged, and its
// hash, outside the database: a write-ahead log that lost its end reads like a shorter
// but sound journal, and only this file tells.
//
// It is made, and synced, before the first event, so that a journal with events and without a
// head is a damaged one. It is written after each commit and before anyone is told, without an
// fsync: after a power cut it may be older than the journal, which is harmless, never newer.

const (
	headPrefix = "jobd-head "
	headDigits = 20
	headSize   = len(headPrefix) + headDigits + len(" ") + 2*sha256.Size + len("\n")
)

type Head struct {
	f       *os.File
	content [headSize]byte // as it was written last
}

// fill makes the content: the prefix, the number in 20 digits, the hash in hexadecimal.
func (h *Head) fill(seq uint64, hash journal.Hash) {
	copy(h.content[:], headPrefix)
	rest := h.content[len(headPrefix):]
	for i := headDigits - 1; i >= 0; i-- {
		rest[i] = byte('0' + seq%10)
		seq /= 10
	}
	rest[headDigits] = ' '
	hex.Encode(rest[headDigits+1:], hash[:])
	rest[len(rest)-1] = '\n'
}

// OpenHead opens the head file for writing, making it where it is missing or
// empty, which verification found to be legal.
func OpenHead(dir string) (*Head, error) {
	f, err := os.OpenFile(filepath.Join(dir, HeadFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal head: %w", err)
	}
	h := &Head{f: f}
	if info, err := f.Stat(); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal head: %w", err), f.Close())
	} else if info.Size() > 0 {
		return h, nil
	}
	if err := errors.Join(h.Write(0, journal.Hash{}), f.Sync(), segment.SyncFolder(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("make journal head: %w", err), f.Close())
	}
	return h, nil
}

// Write replaces the content; it is for one goroutine at a time; it is shorter than a sector, so it
// is never torn.
func (h *Head) Write(seq uint64, hash journal.Hash) error {
	h.fill(seq, hash)
	if _, err := h.f.WriteAt(h.content[:], 0); err != nil {
		return fmt.Errorf("write journal head: %w", err)
	}
	return nil
}

func (h *Head) Close() error {
	return errors.Join(h.f.Sync(), h.f.Close())
}

// Acknowledgement is what the head file says.
type Acknowledgement struct {
	Found bool // there is a head
	Seq   uint64
	Hash  journal.Hash
}

// ReadHead reads the head file.
func ReadHead(dir string) (Acknowledgement, error) {
	data, err := readSettled(filepath.Join(dir, HeadFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return Acknowledgement{}, nil
	}
	if err != nil {
		return Acknowledgement{}, fmt.Errorf("read journal head: %w", err)
	}
	a := Acknowledgement{Found: true}
	var text string
	if _, err := fmt.Sscanf(string(data), "jobd-head %d %s\n", &a.Seq, &text); err != nil || len(data) != headSize {
		return Acknowledgement{}, &journal.DamagedError{Detail: "the head file is not readable"}
	}
	if n, err := hex.Decode(a.Hash[:], []byte(text)); err != nil || n != len(a.Hash) {
		return Acknowledgement{}, &journal.DamagedError{Detail: "the head file's hash is not readable"}
	}
	var written Head
	if written.fill(a.Seq, a.Hash); !bytes.Equal(written.content[:], data) {
		return Acknowledgement{}, &journal.DamagedError{Detail: "the head file is not as jobd writes it"}
	}
	return a, nil
}

// readSettled reads a small file that a worker may be writing at the moment, until
// it reads the same twice.
func readSettled(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	for {
		before := data
		if err != nil {
			return nil, err
		}
		if data, err = os.ReadFile(path); bytes.Equal(before, data) {
			return data, err
		}
	}
}
