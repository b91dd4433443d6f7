package harness

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// shared is the one server of a test process.
var shared = struct {
	once   sync.Once
	server *dbserver.Server
	err    error
	count  atomic.Int64 // databases made so far
}{}

// Main runs a package's tests and ends the server that they shared.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// MainAtOnce is Main for tests of which so many run at once.
func MainAtOnce(m *testing.M, most int) {
	AtOnce(most)
	Main(m)
}

// AtOnce has so many tests run at once, unless -parallel says something else: for those that wait most
// of the time, for daemons, or for what takes its time.
func AtOnce(most int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", strconv.Itoa(most)); err != nil {
			panic(err) // the flag is there
		}
	}
}

// Database is a database of a test's own with one jobs table, and the account that the daemons use.
type Database struct {
	Name    string
	Account dbserver.Account // SELECT and UPDATE on the one table
	Addr    string           // host:port of the server
	Admin   *sql.DB          // the application's own connections
}

// NewDatabase makes a database on the shared server: MariaDB, or MySQL where JOBD_TEST_MYSQL_ROOT
// names one. The statement makes the table jobs; the usual one where there is none.
func NewDatabase(t testing.TB, table ...string) *Database {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = dbserver.Start(context.Background(), dbserver.Options{})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return NewDatabaseOn(t, shared.server, table...)
}

// NewDatabaseOn makes a database on a server of the caller's.
func NewDatabaseOn(t testing.TB, server *dbserver.Server, table ...string) *Database {
	t.Helper()
	if len(table) == 0 {
		table = []string{dbserver.JobsTable}
	}
	db := &Database{Name: fmt.Sprintf("test_%d", shared.count.Add(1)), Addr: server.Addr()}
	if err := server.CreateDatabase(t.Context(), db.Name, table...); err != nil {
		t.Fatal(err)
	}
	var err error
	if db.Account, err = server.Limited(t.Context(), db.Name); err != nil {
		t.Fatal(err)
	}
	if db.Admin, err = server.Open(db.Name); err != nil {
		t.Fatal(err)
	}
	db.Admin.SetMaxOpenConns(4)
	t.Cleanup(func() { db.Admin.Close() })
	return db
}

// Settings are the configuration's keys for this database.
func (db *Database) Settings() Settings {
	host, port, err := net.SplitHostPort(db.Addr)
	if err != nil {
		panic(err) // the server's own address
	}
	return Settings{
		"poll_interval": "0", // what is found is found because somebody said so
		"mysql_host":    host, "mysql_port": port, "mysql_database": db.Name,
		"mysql_user": db.Account.User, "mysql_password": db.Account.Password,
	}
}

// Client is a shell command that runs SQL in the database with the daemons' account.
func (db *Database) Client() string {
	s := db.Settings()
	return fmt.Sprintf("MYSQL_PWD=%s mariadb --no-defaults --protocol=tcp -h %s -P %s -u %s %s",
		shellQuoted(db.Account.Password), s["mysql_host"], s["mysql_port"], db.Account.User, db.Name)
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Link is a way to a server that a test can break.
type Link struct{ *linkproxy.Proxy }

// NewLink passes connections on to an address until the test ends.
func NewLink(t testing.TB, addr string) Link {
	t.Helper()
	proxy := must.Get(linkproxy.Start(addr))(t)
	t.Cleanup(func() { must.Do(t, proxy.Close()) })
	return Link{proxy}
}

// ToDatabase leads a worker to its database over the link.
func (l Link) ToDatabase() Settings { return Settings{"mysql_port": strconv.Itoa(l.Port())} }

// Away cuts the link, and refuses new connections until Back.
func (l Link) Away() {
	l.Refuse(true)
	l.Cut()
}

// Back lets connections pass again.
func (l Link) Back() { l.Refuse(false) }

// TimesTable is the statement that makes the jobs table with all columns about time, and the indexes
// that claims need for them.
var TimesTable = strings.NewReplacer(
	"'ignored')", "'ignored','delayed')",
	"  PRIMARY KEY (`id`),\n", "  `run_at` int(10) UNSIGNED NOT NULL DEFAULT 0,\n"+
		"  `planned_at` int(10) UNSIGNED NOT NULL DEFAULT 0,\n"+
		"  `schedule` varchar(64) DEFAULT NULL,\n"+
		"  `time_zone` varchar(64) DEFAULT NULL,\n"+
		"  `attempts` smallint UNSIGNED NOT NULL DEFAULT 0,\n"+
		"  `max_attempts` smallint UNSIGNED DEFAULT NULL,\n"+
		"  `timeout` int(10) UNSIGNED DEFAULT NULL,\n"+
		"  `priority` tinyint NOT NULL DEFAULT 0,\n"+
		"  `unique_key` varchar(190) DEFAULT NULL,\n"+
		"  PRIMARY KEY (`id`),\n"+
		"  UNIQUE KEY `unique_key` (`unique_key`),\n"+
		"  KEY `due_idx` (`status`, `target`, `run_at`),\n"+
		"  KEY `priority_idx` (`status`, `target`, `priority` DESC, `id`),\n",
).Replace(dbserver.JobsTable)

// UsesAll has a worker use all columns about time.
var UsesAll = Settings{"use_columns": "all"}

// Terms are the keys of the section about one target, as Settings have them.
func Terms(target string, keys Settings) Settings {
	s := Settings{}
	for key, value := range keys {
		s["[target "+target+"] "+key] = value
	}
	return s
}

// StartPair starts a Galera pair for one test, which is skipped where the server is MySQL.
func StartPair(t *testing.T) [2]*dbserver.Server {
	t.Helper()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("MySQL has no Galera")
	}
	pair := must.Get(dbserver.StartPair(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		for _, node := range pair {
			check.Do(t, node.Close())
		}
	})
	return pair
}
