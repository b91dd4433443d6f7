package mysql

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// The server's errors about an account.
const (
	errDeniedDatabase = 1044
	errDenied         = 1045
	errDeniedTable    = 1142
	errDeniedColumn   = 1143
	errDeniedPlugin   = 1698
)

// asAccount is an error of a connection whose account is known, which the server's words don't
// always tell.
type asAccount struct {
	err     error
	account string // as in 'jobd'@'%'
}

func (e *asAccount) Error() string { return e.err.Error() }
func (e *asAccount) Unwrap() error { return e.err }

// ofAccount adds to an error about privileges which account the connection has.
func ofAccount(ctx context.Context, conn *sql.Conn, err error) error {
	var account string
	if !slices.Contains([]uint16{errDeniedTable, errDeniedColumn, errDenied}, number(err)) ||
		conn.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&account) != nil {
		return err
	}
	at := strings.LastIndex(account, "@")
	if at < 0 {
		return err
	}
	return &asAccount{err: err, account: accountName(account[:at], account[at+1:])}
}

// accountInText finds the account in the server's words: 'jobd'@'localhost'.
var accountInText = regexp.MustCompile(`'([^']*)'@'([^']*)'`)

// hostInText finds the host in the server's words: Host '10.0.0.7' is not allowed.
var hostInText = regexp.MustCompile(`[Hh]ost '([^']*)'`)

// words are the server's own.
func words(err error) string {
	var server *driver.MySQLError
	if errors.As(err, &server) {
		return server.Message
	}
	return err.Error()
}

// createAccount is the statements that make the account for a host, and let it do what it must.
func (t *Table) createAccount(host string) string {
	account := accountName(t.config.User, host)
	return "CREATE USER " + account + " IDENTIFIED BY '...' (mysql_password); " + t.grant(account)
}

// alterUser is a statement that changes the account. Who is not let in is not told which account
// that is.
func (t *Table) alterUser(how string) string {
	return "ALTER USER " + accountName(t.config.User, "%") + " " + how + " (with the account's host: SELECT host FROM mysql.user WHERE user = " + literal(t.config.User) + ")"
}

// grant is the statement that lets an account do what it must.
func (t *Table) grant(account string) string {
	return "GRANT SELECT, UPDATE ON " + t.name.quoted() + " TO " + account
}

// grantColumns is the statement that lets an account do what it must, and no more: one with grants on
// columns lacks those on columns that were added later.
func (t *Table) grantColumns(account string) string {
	list := func(names []string) string {
		quoted := make([]string, len(names))
		for i, name := range names {
			quoted[i] = quote(name)
		}
		return " (" + strings.Join(quoted, ", ") + ")"
	}
	read := append(store.Columns(), t.config.Uses...)
	if owner := t.config.ClaimColumn; !slices.Contains(read, strings.ToLower(owner)) {
		read = append(read, owner)
	}
	return "GRANT SELECT" + list(read) + ", UPDATE" + list(rule.Written(t.config.ClaimColumn, t.config.Uses)) + " ON " + t.name.quoted() + " TO " + account
}

// seenAs is the user and the host that the server's words name; else those of the configuration.
func (t *Table) seenAs(err error) (user, host string) {
	if found := accountInText.FindStringSubmatch(words(err)); found != nil {
		return found[1], found[2]
	}
	return t.config.User, "%"
}

// accountOf is the account of the connection, as far as it is known.
func (t *Table) accountOf(err error) string {
	var known *asAccount
	if errors.As(err, &known) {
		return known.account
	}
	return accountName(t.seenAs(err))
}

// way is where the server is, and the keys that say so.
func (t *Table) way() string {
	if strings.HasPrefix(t.config.Host, "/") {
		return t.config.Host + " (mysql_host)"
	}
	return net.JoinHostPort(t.config.Host, strconv.Itoa(t.config.Port)) + " (mysql_host, mysql_port)"
}
