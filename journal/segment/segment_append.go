package segment

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"jobd/journal"
)

// Append implements disk. It speaks to the driver directly: database/sql would take as long as
// SQLite.
func (s *Appender) Append(records []Record, n *Notes) error {
	err := s.Conn.Raw(func(any) error {
		if n == nil && rowsAtOnce(len(records)) == len(records) && (!s.empty || len(records) == 1) {
			return s.insert(records) // a statement alone is a transaction of its own
		}
		return s.insertNoted(records, n)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.empty = s.empty && len(records) == 0
	return nil
}

// insertNoted inserts records and the notes, where there are any, in one transaction.
func (s *Appender) insertNoted(records []Record, n *Notes) error {
	if err := run(s.begin); err != nil {
		return err
	}
	err := s.insert(records)
	if err == nil && n != nil {
		err = run(s.note, int64(n.Position), int64(n.Kept))
	}
	if err == nil {
		err = run(s.commit)
	}
	if err != nil {
		_ = run(s.rollback) // SQLite may have rolled back by itself; then this fails, and means nothing
	}
	return err
}

// run executes a prepared statement.
func run(statement driver.Stmt, values ...int64) error {
	args := make([]driver.NamedValue, len(values))
	for i, value := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	_, err := statement.(driver.StmtExecContext).ExecContext(context.Background(), args)
	return err
}

// insert inserts records, as many at a time as there are. Those that follow another get the number
// after the last one from SQLite, which is cheaper than to be told, and reports whether anybody
// else has added some.
func (s *Appender) insert(records []Record) error {
	if s.empty && len(records) > 0 {
		if err := s.insertWith(s.first, records[:1], int64(records[0].Seq)); err != nil {
			return err
		}
		records = records[1:]
	}
	for len(records) > 0 {
		n := rowsAtOnce(len(records))
		if err := s.insertWith(s.inserts[n], records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// insertWith inserts records by a statement that takes their columns, and then others.
func (s *Appender) insertWith(statement driver.Stmt, records []Record, others ...driver.Value) error {
	s.bound = s.bound[:0]
	for i := range records {
		s.bindRecord(&records[i])
	}
	s.bind(others...)
	result, err := statement.(driver.StmtExecContext).ExecContext(context.Background(), s.bound)
	clear(s.bound) // lets go of the output
	if err != nil {
		return fmt.Errorf("events from %d: %w", records[0].Seq, err)
	}
	last, err := result.LastInsertId()
	if want := records[len(records)-1].Seq; err != nil || uint64(last) != want {
		return errors.Join(err, &journal.DamagedError{Seq: records[0].Seq, Detail: "somebody else has added events"})
	}
	return nil
}

// bindRecord binds a record's columns.
func (s *Appender) bindRecord(r *Record) {
	stdout, stderr := pack(s.encoder, r.Stdout), pack(s.encoder, r.Stderr)
	s.bytes += int64(recordOverhead + len(r.Payload) + len(stdout) + len(stderr))
	s.bind(r.Micros, r.Job, string(r.Kind), r.Payload, blob(stdout), blob(stderr), r.Hash[:])
}

func (s *Appender) bind(values ...driver.Value) {
	for _, value := range values {
		s.bound = append(s.bound, driver.NamedValue{Ordinal: len(s.bound) + 1, Value: value})
	}
}

// blob is bytes as a column's value, NULL where there are none.
func blob(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

// ForgetSize has size count from here on.
func (s *Appender) ForgetSize() { s.bytes = 0 }

// Size implements disk.
func (s *Appender) Size() int64 { return s.bytes }

// Checkpoint implements disk. Where a reader is in the way the log stays as it is.
func (s *Appender) Checkpoint(bound int64) error {
	info, err := os.Stat(s.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was written yet, or everything is in the database
	}
	if err != nil || info.Size() <= bound {
		return err
	}
	_, err = s.Conn.ExecContext(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

// RemoveDatabase removes a database and what belongs to it, the database first: a log without its
// database means nothing, a database without its log something else.
func RemoveDatabase(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
