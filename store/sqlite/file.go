package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/store"
)

// files makes the table's connections, one at a time. SQLite keeps a file open by its inode: when
// the path leads to another file or to none, it reads and writes on where nobody else looks. So
// each connection's inode is known and is compared with the path's, before each transaction and
// after it.
type files struct {
	driver sqldriver.Driver
	table  *Table
}

// Driver implements driver.Connector.
func (f files) Driver() sqldriver.Driver { return f.driver }

// Connect implements driver.Connector. The file is made only until it was there once: a table that
// vanishes under way is waited for, not replaced by an empty one.
func (f files) Connect(context.Context) (sqldriver.Conn, error) {
	t, mode := f.table, "rwc"
	before, err := os.Stat(t.path)
	if t.known.Load() {
		mode = "rw"
		if err != nil {
			return nil, t.gone(err)
		}
	}
	conn, err := f.driver.Open(source(t.path, mode))
	if err != nil {
		return nil, err
	}
	after, err := os.Stat(t.path)
	if err != nil || before != nil && !os.SameFile(before, after) {
		return nil, errors.Join(t.moved(), conn.Close())
	}
	t.noteFile(after)
	return &remembering{conn.(connection), map[string]statement{}}, nil
}

// remembering is a connection that prepares a statement once: one that is closed waits for the next that needs it.
// All that is asked is prepared, since it has no other methods for that.
type remembering struct {
	connection
	closed map[string]statement // by their text; nil: the connection itself is closed
}

// mostRemembered is how many statements a connection keeps.
const mostRemembered = 100

// connection is what the driver's connections are.
type connection interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.SessionResetter
	sqldriver.Validator
}

// statement is one of a connection.
type statement struct {
	prepared
	conn *remembering
	text string
}

// prepared is what the driver's statements are.
type prepared interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

// Prepare implements driver.Conn.
func (c *remembering) Prepare(text string) (sqldriver.Stmt, error) {
	if s, known := c.closed[text]; known {
		delete(c.closed, text)
		return s, nil
	}
	made, err := c.connection.Prepare(text)
	if err != nil {
		return nil, err
	}
	return statement{made.(prepared), c, text}, nil
}

// Close implements driver.Stmt.
func (s statement) Close() error {
	closed := s.conn.closed
	if _, known := closed[s.text]; known || closed == nil || len(closed) >= mostRemembered {
		return s.prepared.Close()
	}
	closed[s.text] = s
	return nil
}

// Close implements driver.Conn.
func (c *remembering) Close() error {
	all := c.closed
	c.closed = nil
	for _, s := range all {
		_ = s.prepared.Close() // it tells what its last use has told
	}
	return c.connection.Close()
}

// source names the file to the driver, with what every connection to it needs (pitfall 18).
func source(path, mode string) string {
	options := url.Values{
		"mode":    {mode},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}).String()
}

// noteFile notes which file the new connection has open.
func (t *Table) noteFile(file fs.FileInfo) {
	former := t.file.Swap(&file)
	if former != nil && !os.SameFile(*former, file) {
		t.layout.Store(nil)
		t.config.Logger.Warn("the table's file was replaced by another one, which is open now", "file", t.path)
	}
	t.Reach(t.server())
}

// there tells whether the path still leads to the file that is open.
func (t *Table) there() error {
	now, err := os.Stat(t.path)
	if err != nil {
		return t.gone(err)
	}
	if !os.SameFile(*t.file.Load(), now) {
		return t.moved()
	}
	return nil
}

// gone is the error for a file that is not to be found.
func (t *Table) gone(cause error) error {
	return &store.Unreachable{Op: "reach the table", Err: fmt.Errorf("the file %s is gone; waiting until it is back: %w", t.path, cause)}
}

// errMoved tells that the path leads to another file than before.
var errMoved = errors.New("it was replaced by another file")

// moved is the error for a file that was replaced.
func (t *Table) moved() error {
	return &store.Unreachable{Op: "reach the table", Err: fmt.Errorf("the file %s: %w", t.path, errMoved)}
}

// connect gives the connection, whose file the path leads to. One to a file that is gone is kept:
// nobody else gets its inode as long as it is open, so that a new file is never taken for it. One
// to a file that was replaced is closed.
func (t *Table) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	err = t.there()
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, errMoved) {
		t.layout.Store(nil)
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // makes the pool close it
	}
	_ = conn.Close() // it has nothing more to say
	return nil, err
}

// Server implements store.Table: the file's device and inode.
func (t *Table) Server(ctx context.Context) (id string, err error) {
	if _, err := t.layout.Get(ctx); err != nil {
		return "", err
	}
	err = t.transact(ctx, func(context.Context, *sql.Tx) (bool, error) {
		id = t.server()
		return false, nil
	})
	return id, t.Fail("ask which file it is", err)
}

// server is the identity of the file that is open. The caller has the connection.
func (t *Table) server() string {
	status := (*t.file.Load()).Sys().(*syscall.Stat_t)
	return fmt.Sprintf("sqlite:%d:%d", status.Dev, status.Ino)
}

// claiming is transact for claims, which are made in the confirmed file only.
func (t *Table) claiming(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) (commit bool, err error)) error {
	return t.do(&part{ctx: ctx, claims: true, work: func(ctx context.Context, tx *sql.Tx) (bool, error) {
		if err := t.AllowClaim(ctx, t.server()); err != nil {
			return false, err
		}
		return work(ctx, tx)
	}})
}

// inspectFile looks at what can be known without opening the file, which would make it; isNew tells
// that there is none.
func (t *Table) inspectFile() (found []store.Finding, isNew bool) {
	fault := func(what, remedy string) []store.Finding {
		return []store.Finding{{Severity: store.Fault, Where: "file " + t.path + " (sqlite_path)", What: what, Remedy: remedy}}
	}
	dir := filepath.Dir(t.path)
	info, err := os.Stat(t.path)
	isNew = errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil && info.IsDir():
		return fault("it is a folder", "name a file in it"), false
	case err == nil && !info.Mode().IsRegular():
		return fault("it is not a regular file", "name one, or a path where there is none yet"), false
	case err != nil && !isNew:
		return fault(err.Error(), "let this program's user enter the folders on the way to it"), false
	}
	folder, err := os.Stat(dir)
	switch {
	case err != nil || !folder.IsDir():
		return fault("there is not a folder "+dir, "mkdir "+dir+", and give it to this program's user"), isNew
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		return fault("this program's user may not write in folder "+dir+", where SQLite needs files beside it", "give the folder to that user"), isNew
	case !isNew && unix.Access(t.path, unix.R_OK|unix.W_OK) != nil:
		return fault("this program's user may not read and write it", "give the file to that user"), false
	}
	return nil, isNew
}
