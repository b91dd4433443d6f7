package folder

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jobd/journal/segment"
)

// Part is a segment as it lies in a folder.
type Part struct {
	Number int
	Path   string
	Sealed bool
}

// The ends of segment files' names.
const (
	SegmentPrefix = "segment-"
	databaseEnd   = ".db"
	sealedEnd     = ".zst"
	PartialEnd    = ".partial" // of a sealed file in the making
)

func SealedPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%08d%s", SegmentPrefix, number, sealedEnd))
}

// List gives the segments in a folder by number. A sealed segment counts, a database of the same
// number beside it does not.
func List(dir string) ([]Part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var parts []Part
	for _, entry := range entries {
		end := filepath.Ext(entry.Name())
		digits := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), SegmentPrefix), end)
		number, err := strconv.Atoi(digits)
		if err != nil || number < 1 || entry.Name() != fmt.Sprintf("%s%08d%s", SegmentPrefix, number, end) || end != databaseEnd && end != sealedEnd {
			continue
		}
		parts = append(parts, Part{number, filepath.Join(dir, entry.Name()), end == sealedEnd})
	}
	slices.SortFunc(parts, func(a, b Part) int {
		if a.Number != b.Number || !a.Sealed {
			return cmp.Or(cmp.Compare(a.Number, b.Number), 1)
		}
		return -1
	})
	return slices.CompactFunc(parts, func(a, b Part) bool { return a.Number == b.Number }), nil
}

// Segments is List without the newest database where it has no header yet: that one is not there.
// An error says that the newest one is of another version, or no database.
func (f *Folder) Segments(ctx context.Context) (parts []Part, err error) {
	err = again(func() error {
		if parts, err = List(f.Dir); err != nil || len(parts) == 0 || parts[len(parts)-1].Sealed {
			return err
		}
		newest := len(parts) - 1
		made, err := f.examine(ctx, parts[newest])
		if err == nil && !made {
			parts = parts[:newest]
		}
		return err
	})
	return parts, err
}

// Present is Segments where damage to the newest segment does not matter, since whoever reads it
// will meet it.
func (f *Folder) Present(ctx context.Context) ([]Part, error) {
	parts, err := f.Segments(ctx)
	if segment.IsDamage(err) {
		err = nil
	}
	return parts, err
}

// examine looks whether a database is one that this version can read, with all that
// belongs to it and nothing else; made reports whether there is anything in it.
func (f *Folder) examine(ctx context.Context, p Part) (made bool, err error) {
	d := segment.ReadDatabase(p.Path, f.decoder, 0)
	defer d.Close()
	return d.Examine(ctx)
}

// Open opens a part for reading. The caller closes it.
func (f *Folder) Open(p Part) (segment.Source, error) {
	if p.Sealed {
		s, err := f.OpenSealed(p.Path)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return segment.ReadDatabase(p.Path, f.decoder, f.rests), nil
}

// OpenSealed opens a sealed segment, wherever it lies. The caller closes it.
func (f *Folder) OpenSealed(path string) (*segment.Sealed, error) {
	return segment.OpenSealed(path, f.decoder, f.rests)
}
