package journal

import (
	"bytes"
	"crypto/sha256"
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
// It is made, and synced, before the first event, so that a journal with events and without a
// head is a damaged one. It is written after each commit and before anyone is told, without an
// fsync: after a power cut it may be older than the journal, which is harmless, never newer.
const headFile = "head"

const (
	headPrefix = "jobd-head "
	headDigits = 20
	headSize   = len(headPrefix) + headDigits + len(" ") + 2*sha256.Size + len("\n")
)

type head struct {
	f       *os.File
	content [headSize]byte // as it was written last
}

// fill makes the content: the prefix, the number in 20 digits, the hash in hexadecimal.
func (h *head) fill(seq uint64, hash Hash) {
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

// openHead opens the head file for writing, making it where it is missing or
// empty, which verification found to be legal.
func openHead(dir string) (*head, error) {
	f, err := os.OpenFile(filepath.Join(dir, headFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal head: %w", err)
	}
	h := &head{f: f}
	if info, err := f.Stat(); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal head: %w", err), f.Close())
	} else if info.Size() > 0 {
		return h, nil
	}
	if err := errors.Join(h.write(0, Hash{}), f.Sync(), syncFolder(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("make journal head: %w", err), f.Close())
	}
	return h, nil
}

// syncFolder makes the names of new files durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// write replaces the content; it is for one goroutine at a time; it is shorter than a sector, so it is never torn.
func (h *head) write(seq uint64, hash Hash) error {
	h.fill(seq, hash)
	if _, err := h.f.WriteAt(h.content[:], 0); err != nil {
		return fmt.Errorf("write journal head: %w", err)
	}
	return nil
}

func (h *head) close() error {
	return errors.Join(h.f.Sync(), h.f.Close())
}

// acknowledgement is what the head file says.
type acknowledgement struct {
	found bool // there is a head
	seq   uint64
	hash  Hash
}

// readHead reads the head file.
func readHead(dir string) (acknowledgement, error) {
	data, err := readSettled(filepath.Join(dir, headFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return acknowledgement{}, nil
	}
	if err != nil {
		return acknowledgement{}, fmt.Errorf("read journal head: %w", err)
	}
	a := acknowledgement{found: true}
	var text string
	if _, err := fmt.Sscanf(string(data), "jobd-head %d %s\n", &a.seq, &text); err != nil || len(data) != headSize {
		return acknowledgement{}, &DamagedError{Detail: "the head file is not readable"}
	}
	if n, err := hex.Decode(a.hash[:], []byte(text)); err != nil || n != len(a.hash) {
		return acknowledgement{}, &DamagedError{Detail: "the head file's hash is not readable"}
	}
	var written head
	if written.fill(a.seq, a.hash); !bytes.Equal(written.content[:], data) {
		return acknowledgement{}, &DamagedError{Detail: "the head file is not as jobd writes it"}
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
