package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// part is a segment as it lies in a folder.
type part struct {
	number int
	path   string
	sealed bool
}

// The ends of segment files' names.
const (
	segmentPrefix = "segment-"
	databaseEnd   = ".db"
	sealedEnd     = ".zst"
	partialEnd    = ".partial" // of a sealed file in the making
)

func sealedPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%08d%s", segmentPrefix, number, sealedEnd))
}

// list gives the segments in a folder by number. A sealed segment counts, a database of the same number beside it does not.
func list(dir string) ([]part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, entry := range entries {
		end := filepath.Ext(entry.Name())
		digits := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), segmentPrefix), end)
		number, err := strconv.Atoi(digits)
		if err != nil || number < 1 || entry.Name() != fmt.Sprintf("%s%08d%s", segmentPrefix, number, end) || end != databaseEnd && end != sealedEnd {
			continue
		}
		parts = append(parts, part{number, filepath.Join(dir, entry.Name()), end == sealedEnd})
	}
	slices.SortFunc(parts, func(a, b part) int {
		if a.number != b.number || !a.sealed {
			return cmp.Or(cmp.Compare(a.number, b.number), 1)
		}
		return -1
	})
	return slices.CompactFunc(parts, func(a, b part) bool { return a.number == b.number }), nil
}

// settled is list without the newest database where it has no header yet: that one is not there. An error
// says that the newest one is of another version, or no database.
func (r *Reader) settled(ctx context.Context) (parts []part, err error) {
	for range maxLooks {
		if parts, err = list(r.dir); err != nil || len(parts) == 0 || parts[len(parts)-1].sealed {
			return parts, err
		}
		newest := len(parts) - 1
		var made bool
		if made, err = r.examine(ctx, parts[newest]); err == nil && !made {
			parts = parts[:newest]
		}
		if !errors.Is(err, fs.ErrNotExist) { // else it was sealed between the two looks
			break
		}
	}
	return parts, err
}

// present is settled where damage to the newest segment does not matter, since whoever reads it will meet it.
func (r *Reader) present(ctx context.Context) ([]part, error) {
	parts, err := r.settled(ctx)
	if isDamage(err) {
		err = nil
	}
	return parts, err
}

// examine looks whether a database is one that this version can read, with all that
// belongs to it and nothing else; made tells whether there is anything in it.
func (r *Reader) examine(ctx context.Context, p part) (made bool, err error) {
	d := &database{path: p.path, decoder: r.decoder}
	defer d.close()
	return d.examine(ctx)
}

// open opens a part for reading. The caller closes it.
func (p part) open(decoder *zstd.Decoder) (source, error) {
	if p.sealed {
		return openSealed(p.path, decoder)
	}
	return &database{path: p.path, decoder: decoder}, nil
}

// header implements source.
func (d *database) header(ctx context.Context) (header, error) {
	var content []byte
	err := d.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT header FROM segment`).Scan(&content)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return header{}, &DamagedError{Detail: "a segment's header is missing"}
	}
	if err != nil {
		return header{}, damaged(err)
	}
	return parseHeader(content)
}
