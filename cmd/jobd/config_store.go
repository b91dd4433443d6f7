package main

import (
	"math"
	"strings"

	"jobd/cmd/internal/conf"
	"jobd/store"
)

// The stores to choose from.
const (
	storeMySQL  = "mysql"
	storeSQLite = "sqlite"
)

// storeConfig says which table the jobs are in.
type storeConfig struct {
	kind        string // storeMySQL or storeSQLite
	mysql       mysqlConfig
	sqlitePath  string
	claimColumn string // holds a claim's token
}

func (c *storeConfig) register(set *conf.Set) {
	set.Add("store", storeMySQL, "where the table is: mysql or sqlite", conf.OneOf(&c.kind, storeMySQL, storeSQLite))
	c.mysql.register(set)
	set.Add("sqlite_path", "", "the table's file, for store = sqlite", conf.NonEmpty(&c.sqlitePath))
	set.Add("claim_column", "sig", "the column that holds a claim's token", conf.NonEmpty(&c.claimColumn))
}

func (c *storeConfig) validate(set *conf.Set) {
	if store.IsTaken(c.claimColumn) {
		set.Bad("claim_column", set.Shown("claim_column", c.claimColumn)+" is not allowed: the column holds something else; allowed is sig, or a column of its own")
	}
	switch c.kind {
	case storeMySQL:
		c.mysql.validate(set)
		if set.Given("sqlite_path") {
			set.Warn("sqlite_path", "it is not used: the table is on a server, unless store = sqlite")
		}
	case storeSQLite:
		set.Require(" for store = sqlite", "sqlite_path")
	}
}

// mysqlConfig says how to reach the table on a MySQL or MariaDB server.
type mysqlConfig struct {
	host       string // one that begins with / is a socket
	port       int
	user       string
	password   string
	serverKey  string // the file that holds the server's public key; "": there is none
	database   string
	table      string // name, or database.name
	fetchLimit int    // most rows in one claim; 0: no limit of its own

	maxConnections int
}

// The bounds of mysql_max_connections: below the least, claims, the mirror and clients' requests
// would wait for each other.
const (
	leastConnections = 4
	mostConnections  = 1000
)

func (c *mysqlConfig) register(set *conf.Set) {
	set.Add("mysql_host", "", "the database server; one that begins with / is a socket", c.decodeHost)
	set.Add("mysql_port", "", "its port", conf.Int(&c.port, 1, 65535))
	set.Add("mysql_user", "", "the account; it needs SELECT and UPDATE on the table", conf.NonEmpty(&c.user))
	set.Add("mysql_password", "", "its password; better kept in the file", conf.Text(&c.password)).Secret().Kept()
	set.Add("mysql_server_public_key", "", "a file with the server's RSA key, for caching_sha2_password from another host", conf.NonEmpty(&c.serverKey))
	set.Add("mysql_database", "", "the table's database", conf.NonEmpty(&c.database))
	set.Add("mysql_table", "jobs", "the table; also database.table", conf.NonEmpty(&c.table))
	set.Add("mysql_fetch_limit", "100", "most rows in one claim; 0: no limit", conf.Int(&c.fetchLimit, 0, math.MaxInt))
	set.Add("mysql_max_connections", "8", "connections to the database; claims, the mirror and clients' requests share them", conf.Int(&c.maxConnections, leastConnections, mostConnections))
}

// decodeHost takes a host, or the path of a socket.
func (c *mysqlConfig) decodeHost(text string) error {
	if strings.HasPrefix(text, "/") {
		c.host = text
		return nil
	}
	return conf.Host(&c.host, "mysql_port")(text)
}

func (c *mysqlConfig) validate(set *conf.Set) {
	keys := []string{"mysql_host", "mysql_port", "mysql_user", "mysql_password", "mysql_database"}
	if c.isSocket() {
		keys = []string{"mysql_host", "mysql_user", "mysql_password", "mysql_database"}
	}
	set.Require(" for store = mysql", keys...)
	parts := strings.Split(c.table, ".")
	if len(parts) > 2 || parts[0] == "" || parts[len(parts)-1] == "" {
		if set.Given("mysql_table") && c.table != "" {
			set.Bad("mysql_table", set.Shown("mysql_table", c.table)+" is not allowed; allowed is table or database.table")
		}
	}
}

func (c *mysqlConfig) isSocket() bool { return strings.HasPrefix(c.host, "/") }
