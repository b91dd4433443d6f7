package segment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"jobd/journal"
)

// CheckRest implements source: the sum over the file, and the job index, which must be where jobs
// really occur. It sorts occurring.
func (s *Sealed) CheckRest(ctx context.Context, occurring []JobBlock) error {
	if err := s.checkSum(ctx); err != nil {
		return err
	}
	return s.checkIndex(occurring)
}

func (s *Sealed) checkIndex(occurring []JobBlock) error {
	slices.SortFunc(occurring, compareJobBlocks)
	for _, page := range s.pages {
		entries, err := s.page(page)
		if err != nil {
			return err
		}
		if len(entries) == 0 || len(entries) > len(occurring) || entries[0].job != page.First || !slices.Equal(entries, occurring[:len(entries)]) {
			return s.damaged(s.trailer.First, fmt.Errorf("its job index does not agree with its events"))
		}
		occurring = occurring[len(entries):]
	}
	if len(occurring) > 0 {
		return s.damaged(s.trailer.First, fmt.Errorf("its job index does not know all events"))
	}
	return nil
}

// checkSum reads the whole file and compares its sum.
func (s *Sealed) checkSum(ctx context.Context) error {
	sum := sha256.New()
	size := int64(s.trailer.AfterFrames) + int64(trailerSize) - int64(len(journal.Hash{}))
	buffer := make([]byte, 256<<10)
	for at := int64(0); at < size; {
		n, err := s.file.ReadAt(buffer[:min(int64(len(buffer)), size-at)], at)
		if n == 0 || ctx.Err() != nil {
			return joinedIO(ctx, err)
		}
		sum.Write(buffer[:n])
		at += int64(n)
	}
	if !bytes.Equal(sum.Sum(nil), s.trailer.Sum[:]) {
		return s.damaged(s.trailer.First, fmt.Errorf("its bytes are not those that were written"))
	}
	return nil
}

func joinedIO(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// IsCopyOf reports whether two sealed files are of the same segment, by what their ends say, and
// then whether this one's bytes are those that were written.
func (s *Sealed) IsCopyOf(ctx context.Context, other *Sealed) (bool, error) {
	if s.trailer != other.trailer {
		return false, nil
	}
	return true, s.checkSum(ctx)
}
