package archive

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// makeAppender makes a first segment and opens it for appending.
func makeAppender(t *testing.T, dir string) *Appender {
	t.Helper()
	h, err := NewHeader(1, &journal.State{})
	if err == nil {
		err = Make(t.Context(), dir, h, 0)
	}
	must.Do(t, err)
	a := must.Get(OpenAppender(t.Context(), dir, 1))(t)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// Pitfalls 18 and 19: every connection has the settings, not just the first.
func TestSettingsHoldOnEveryConnection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	appender := makeAppender(t, dir)
	path := DatabasePath(dir, 1)
	reader := &database{path: path}
	must.Do(t, reader.connect(appearance{}))
	reading := reader.db
	writing := OpenForWriting(path)
	for name, c := range map[string]struct {
		db    *sql.DB
		wants map[string]string
	}{
		"writer": {writing, map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "2000", "query_only": "0"}},
		"reader": {reading, map[string]string{"journal_mode": "wal", "busy_timeout": "2000", "query_only": "1"}},
	} {
		for n := range 3 {
			// The pool is made to dial anew each time.
			conn := must.Get(c.db.Conn(t.Context()))(t)
			for pragma, want := range c.wants {
				var got string
				if err := conn.QueryRowContext(t.Context(), `PRAGMA `+pragma).Scan(&got); err != nil || got != want {
					t.Errorf("%s, connection %d: %s is %q, want %q (%v)", name, n, pragma, got, want, err)
				}
			}
			must.Do(t, discard(conn))
		}
	}
	check.Equal(t, appender.db.Stats().MaxOpenConnections, 1, "the writer may have … connections")
	if _, err := reading.Exec(`DROP TABLE mirror`); err == nil {
		t.Error("a reader wrote")
	}
	check.Do(t, errors.Join(reading.Close(), writing.Close()))
}

// discard closes a connection instead of giving it back to its pool.
func discard(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return driver.ErrBadConn })
	if err != driver.ErrBadConn {
		return err
	}
	if err := conn.Close(); err != nil && err != sql.ErrConnDone {
		return err
	}
	return nil
}

// Damaged compressed output stays as it is, so that the event's hash tells.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	packed := pack(newEncoder(zstd.SpeedFastest), bytes.Repeat([]byte("x"), 1000))
	packed[len(packed)-1] ^= 1
	if got := unpack(packed); !bytes.Equal(got, packed) {
		t.Errorf("%q", got)
	}
}

// ReadDatabase is a database for reading.
func ReadDatabase(path string) *database { return &database{path: path} }

// Read is read.
func (d *database) Read(query func(*sql.DB) error) error { return d.read(query) }
