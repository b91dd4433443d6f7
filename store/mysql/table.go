package mysql

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Table is a jobs table in MySQL or MariaDB. It implements store.Table.
type Table struct {
	rule.Reader
	rule.Servers  // on which claims are made
	rule.Failures // what errors mean
	config        Config
	name          name
	db            *sql.DB
	layout        rule.Known[layout]     // nil until the table has been examined
	defaultLevel  atomic.Bool            // the server refuses READ COMMITTED
	warned        sync.Map               // warnings given already
	reached       atomic.Pointer[string] // the server that the newest connection leads to
	lockedUntil   atomic.Int64           // until when applying passes by locked rows, in nanoseconds since 1970
	clients       chan struct{}          // holds one for each connection that a client's request uses
	candidates    candidates             // for the next claims of each target
	advisory      advisory               // the locks that Hold took
}

// client waits until one more client's request may use a connection; done ends that.
func (t *Table) client(ctx context.Context) (done func(), err error) {
	select {
	case t.clients <- struct{}{}:
		return func() { <-t.clients }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", ctx.Err())
	}
}

// warn logs a warning the first time that it is given.
func (t *Table) warn(message string, args ...any) {
	if _, given := t.warned.LoadOrStore(message, true); !given {
		t.config.Logger.Warn(message, append([]any{"table", t.config.Table}, args...)...)
	}
}

// New makes a table. It connects when it is first used; its errors are about the configuration.
func New(config Config) (*Table, error) {
	config = config.withDefaults()
	name, err := config.name()
	if err != nil {
		return nil, fmt.Errorf("mysql table %s: %w", config.Table, err)
	}
	if config.keyName, err = config.vouched(); err != nil {
		return nil, err
	}
	connector, err := driver.NewConnector(config.driver())
	if err != nil {
		return nil, fmt.Errorf("mysql table %s: %w", config.Table, err)
	}
	t := &Table{config: config, name: name, clients: make(chan struct{}, config.MaxOpen-reserved)}
	t.OnServer, t.layout.Examine = config.OnServer, t.Check
	t.Failures = rule.Failures{
		Sort: sortError, Check: t.Check, Forget: func() { t.layout.Store(nil) }, Explain: t.explained,
	}
	t.Reader = t.reader()
	t.db = sql.OpenDB(sessions{connector, t})
	t.db.SetMaxOpenConns(config.MaxOpen - 1) // the advisory locks have a connection of their own
	t.db.SetMaxIdleConns(config.MaxOpen - 1)
	t.db.SetConnMaxLifetime(connMaxLifetime)
	t.db.SetConnMaxIdleTime(connMaxIdle)
	return t, nil
}

// Close implements store.Table.
func (t *Table) Close() error { return errors.Join(t.advisory.close(), t.db.Close()) }

var _ store.Table = (*Table)(nil)

// Config says where the table is and how it is reached. Zero values mean the default.
type Config struct {
	Host     string // a name, an address or, beginning with "/", the path of a socket
	Port     int    // 3306
	User     string
	Password string
	// ServerKey: the file with the key that encrypts the password where the server wants all of it;
	// "": there is none.
	ServerKey string
	// TLS gives the configuration of one more connection, which verifies the server; nil: connections have
	// no TLS. That of a socket never has.
	TLS func() (*tls.Config, error)
	// PreferTLS: TLS where the server has it, verified or not; see preferred. Else a server that can't be
	// verified gets nothing.
	PreferTLS   bool
	Database    string
	Table       string     // a name, or database.name; jobs
	ClaimColumn string     // the owner column; sig
	Uses        store.Uses // the optional columns that are jobd's
	Worker      string     // the worker's name, for an owner column other than sig
	// Place: a place where only this process can run: another connection from it is of a dead
	// process; "": not known.
	Place   string
	Logger  *slog.Logger // slog.Default()
	MaxOpen int          // connections at once; 8, the least is 4
	// MaxOutput: bytes kept of stdout and of stderr each, which the columns are judged by; 0: nobody
	// knows.
	MaxOutput int

	// OnServer is called when a connection reaches a server that claims are not made on, because
	// another one or none was confirmed. It must not block.
	OnServer func()

	// OnLost is called when the connection that has the advisory locks is found lost, by a look that
	// is taken now and then: of a worker that has nothing to do nobody else would notice. It must not
	// block.
	OnLost func()

	// ConnectTimeout (10 s) is for the dial. ReadTimeout and WriteTimeout (35 s) are for one read and
	// one write: longer than the server waits for a lock (1 s on a row, 5 s on the table) or for us in
	// a transaction (30 s), so that it gives up before we do.
	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration

	// Dial makes a connection in place of net.Dialer, which has keepalive on.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	keyName string // of the key that the driver has, see vouched
}

// How many connections there are at once, and at least: one each for applying, for claims, for the
// advisory locks and for clients.
const (
	defaultMaxOpen = 8
	leastMaxOpen   = reserved + 1
)

// How long things may take. The server's own limits are the shorter ones (pitfall 6).
const (
	defaultConnectTimeout = 10 * time.Second
	defaultLinkTimeout    = 35 * time.Second
	connMaxLifetime       = 3 * time.Minute
	connMaxIdle           = 20 * time.Second // the server hangs up after 30 s
)

// session is set on every connection. A strict sql_mode refuses what does not fit instead of bending
// it: in lax mode a return code of -1 is stored as 0, success (pitfall 11). A statement outside of a
// transaction commits by itself, none follows another by itself, and no answer is cut, whatever the
// server's defaults are. Waits for other people's locks are short: somebody who holds one row must
// not hold up the others.
func session() map[string]string {
	return map[string]string{
		"autocommit":               "1",
		"completion_type":          "0",
		"sql_select_limit":         "18446744073709551615", // none
		"wait_timeout":             "30",
		"innodb_lock_wait_timeout": "1",
		"lock_wait_timeout":        "5",
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
	}
}

// name is a table's name and database.
type name struct{ database, table string }

// quoted is the name as statements need it.
func (n name) quoted() string { return quote(n.database) + "." + quote(n.table) }

// withDefaults is the configuration with everything filled in.
func (c Config) withDefaults() Config {
	c.Port = cmp.Or(c.Port, 3306)
	c.Table = cmp.Or(c.Table, "jobs")
	c.ClaimColumn = cmp.Or(c.ClaimColumn, store.SigColumn)
	c.MaxOpen = max(cmp.Or(c.MaxOpen, defaultMaxOpen), leastMaxOpen)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnectTimeout)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, defaultLinkTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, defaultLinkTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnServer == nil {
		c.OnServer = func() {}
	}
	if c.OnLost == nil {
		c.OnLost = func() {}
	}
	if c.Dial == nil {
		dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}
		c.Dial = dialer.DialContext
	}
	return c
}

// name is the table's name and database.
func (c Config) name() (name, error) {
	n := name{database: c.Database, table: c.Table}
	if database, table, dotted := strings.Cut(c.Table, "."); dotted {
		n = name{database: database, table: table}
	}
	switch {
	case c.Host == "":
		return name{}, errors.New("the host is empty: a name, an address or a socket's path is needed")
	case n.database == "":
		return name{}, errors.New("no database is named: set it, or write the table as database.name")
	case n.table == "":
		return name{}, errors.New("the table's name is empty: allowed: name and database.name")
	}
	return n, nil
}

// driver is the configuration as the driver takes it, never by way of a DSN,
// where a password needs escaping (pitfall 17).
func (c Config) driver() *driver.Config {
	d := driver.NewConfig()
	d.User, d.Passwd, d.DBName = c.User, c.Password, c.Database
	d.Net, d.Addr = "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	if strings.HasPrefix(c.Host, "/") {
		d.Net, d.Addr = "unix", c.Host
	} else if c.TLS != nil {
		_ = d.Apply(driver.BeforeConnect(func(_ context.Context, d *driver.Config) (err error) { // which never fails
			if d.TLS, err = c.TLS(); err == nil && c.PreferTLS {
				prefer(d)
			}
			return err
		}))
	}
	d.DialFunc, d.ServerPubKey = c.Dial, c.keyName
	if c.PreferTLS {
		d.DialFunc = wary(c.Dial)
	}
	d.Timeout, d.ReadTimeout, d.WriteTimeout = c.ConnectTimeout, c.ReadTimeout, c.WriteTimeout
	d.Collation = "utf8mb4_general_ci"
	d.Params = session()
	d.ClientFoundRows = true
	d.InterpolateParams = true
	d.MultiStatements = true
	d.MaxAllowedPacket = 1 << 30 // the most that a server takes: the limit is the server's, see layout
	d.Logger = slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug)
	return d
}

// reserved is how many connections clients' requests leave to the worker: one each for applying,
// for claims, and for the advisory locks. So a client whose request has to wait keeps nobody
// waiting but other clients.
const reserved = 3

// reader answers clients' questions.
func (t *Table) reader() rule.Reader {
	return rule.Reader{
		Uses: t.config.Uses, Client: t.client,
		Names: func(ctx context.Context, op string, names []string) ([]string, error) {
			names, err := t.comparable(ctx, names)
			return names, t.Fail(op, err)
		},
		Ask: func(ctx context.Context, op string, within time.Duration, query rule.Query, row rule.Row) error {
			err := t.retry(ctx, func() error {
				found, err := t.layout.Get(ctx)
				if err != nil {
					return err
				}
				text, args := query(&found.Shape)
				if within > 0 {
					text = found.within(within, strings.TrimPrefix(text, "SELECT"))
				}
				return rule.Each(ctx, t.db, text, args, row)
			})
			if n := number(err); n == errStatementTime || n == errExecutionTime {
				return fmt.Errorf("%s: %w", op, rule.ErrTooSlow)
			}
			return t.Fail(op, err)
		},
	}
}

// shape is how the table says things. A character may have up to four bytes, so that the end of a text
// has a byte at least for each that is asked for.
func (t *Table) shape(found *inspection) rule.Shape {
	s := rule.Shape{
		Columns: map[string]rule.Column{}, Uses: t.config.Uses, Table: t.name.quoted(),
		Owner: t.config.ClaimColumn, Worker: t.config.Worker, Now: "UNIX_TIMESTAMP()", Clock: clock,
		Code: "CAST(return_code AS SIGNED)", Hint: " FORCE INDEX (%s)", Quote: quote, Output: found.output,
		Locking: " " + found.version.locking(), Dirty: readUncommitted,
		Text:    func(column, none string) string { return "COALESCE(" + column + ", '" + none + "')" },
		Seconds: func(column string) string { return found.columns[column].seconds() },
		Number: func(name string) string {
			c := found.columns[name]
			if c.kind == "bigint" && strings.Contains(c.Declared, "unsigned") {
				return "CAST(LEAST(COALESCE(" + quote(c.Name) + ", 0), 9223372036854775807) AS SIGNED)"
			}
			return c.seconds()
		},
		Long: func(name string) string { return "COALESCE(LEFT(" + quote(name) + ", 1000), '')" },
		Tail: func(column string, bytes int) (size, end string) {
			return "COALESCE(OCTET_LENGTH(" + column + "), 0)", "COALESCE(RIGHT(" + column + ", " + strconv.Itoa(bytes) + "), '')"
		},
	}
	id := found.columns["id"]
	if id.kind == "bigint" && id.Least == 0 || !strings.Contains(id.kind, "int") {
		s.AnID = " AND id <= 9223372036854775807"
	}
	return s
}

// readUncommitted lets the next transaction, or the next statement where none is open, see what
// others have not committed. It holds for no other.
const readUncommitted = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; "

// clock is the server's, in microseconds since 1970. UNIX_TIMESTAMP of a time would go by the server's
// time zone, in which an hour comes twice a year.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// within is a SELECT that the server gives up after a time. The client may be gone before: that only
// closes the connection, and without an index the server would read on through the whole table.
func (l *layout) within(limit time.Duration, selects string) string {
	query := "SELECT /*+ MAX_EXECUTION_TIME(" + strconv.FormatInt(limit.Milliseconds(), 10) + ") */" + selects
	if l.version.mariaDB && l.version.since(nil, []int{10, 1, 2}) { // which takes the hint for a comment
		query = "SET STATEMENT max_statement_time = " + strconv.Itoa(int(limit.Seconds())) + " FOR " + query
	}
	return query
}
