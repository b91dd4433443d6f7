package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// trouble is an error of the way to the table, with what it means to those who can mend it.
type trouble struct {
	finding store.Finding
	err     error
}

// Error implements error. The server's own words come first.
func (e *trouble) Error() string {
	return e.err.Error() + ": " + e.finding.Advice()
}

// Unwrap gives the error itself.
func (e *trouble) Unwrap() error { return e.err }

// explained adds to an error of the way to the table what it means. Others are as they were.
func (t *Table) explained(err error) error {
	var known *trouble
	if err == nil || errors.As(err, &known) {
		return err
	}
	what, remedy := t.meaning(err)
	if what == "" {
		return err
	}
	return &trouble{store.Finding{Severity: store.Fault, Where: theServer, What: what, Remedy: remedy}, err}
}

// findingOf is the finding that an error is.
func (t *Table) findingOf(err error) store.Finding {
	var known *trouble
	if errors.As(t.explained(err), &known) {
		found := known.finding
		found.What += " (" + known.err.Error() + ")"
		return found
	}
	return store.Finding{Severity: store.Fault, Where: theServer, What: t.way() + ": " + err.Error()}
}

// theServer is what findings about the way to the table are about.
const theServer = "database server"

// meaning tells what an error means and what mends it; "" where its own words say all.
func (t *Table) meaning(err error) (what, remedy string) {
	if n := number(err); n != 0 {
		return t.meaningOfNumber(n, err)
	}
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return "the name of the server, " + t.config.Host + " (mysql_host), leads to no address", "correct mysql_host, or the host's name service"
	case errors.Is(err, syscall.ENOENT):
		return "there is no socket " + t.way(), "correct mysql_host (SELECT @@socket tells the path), or start the server"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at " + t.way(), "start the server, correct mysql_host and mysql_port, or let the server listen there: bind_address, skip_networking"
	case errors.Is(err, syscall.EACCES):
		return "this program's user may not use the socket " + t.way(), "chmod o+rwx on it, or enter the user into its group"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no network leads to " + t.way(), "correct mysql_host, or the routes and the firewall"
	case slices.ContainsFunc(driverRefusals(), func(refusal error) bool { return errors.Is(err, refusal) }):
		return "the server at " + t.way() + " wants another kind of authentication of user " + literal(t.config.User) + " (mysql_user) than this program has, such as one over TLS",
			t.alterUser("IDENTIFIED BY '...'") + ", with mysql_native_password or caching_sha2_password"
	case isTimeout(err):
		return t.way() + " does not answer in time", "correct mysql_host and mysql_port; a firewall may drop what is sent there"
	}
	return "", ""
}

// isTimeout tells that the network took too long, and not that the caller's time was over.
func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() && network != net.Error(context.DeadlineExceeded.(net.Error))
}

// meaningOfNumber is meaning for the server's own errors.
func (t *Table) meaningOfNumber(n uint16, err error) (what, remedy string) {
	user := "user " + literal(t.config.User) + " (mysql_user)"
	switch n {
	case errDenied:
		return t.refused(err)
	case errDeniedDatabase, errDeniedTable, errDeniedColumn:
		return t.denied(n, err)
	case errDeniedPlugin: // or MariaDB answers as some other account would be, so that nobody can tell which names it knows
		_, host := t.seenAs(err)
		return "the server at " + t.way() + " knows " + user + " by other means than a password (unix_socket or auth_socket), or has no account of that name for this host",
			t.alterUser("IDENTIFIED BY '...' (mysql_password)") + ", or: " + t.createAccount(host)
	case 1049:
		return "the server at " + t.way() + " has no database " + literal(t.name.database) + " (mysql_database)", "name one that it has: SHOW DATABASES"
	case 1146:
		return "database " + literal(t.name.database) + " (mysql_database) has no table " + literal(t.name.table) + " (mysql_table)",
			"name the table of jobs: SHOW TABLES FROM " + quote(t.name.database) + ", or make it, as README.md does (Use it for real)"
	case 1130:
		host := "%"
		if found := hostInText.FindStringSubmatch(words(err)); found != nil {
			host = found[1]
		}
		return "the server at " + t.way() + " has no account for this host, whoever asks", t.createAccount(host)
	case 1129:
		return "the server at " + t.way() + " takes no connections from this host any more, after too many that failed", "mariadb-admin flush-hosts (mysqladmin flush-hosts), and a higher max_connect_errors"
	case 1040:
		return "the server at " + t.way() + " has no connection left", "SET GLOBAL max_connections to more, or mysql_max_connections of the workers to less (this one takes up to " + fmt.Sprint(t.config.MaxOpen) + ")"
	case 1203, 1226:
		return user + " has used up what the server at " + t.way() + " grants it", t.alterUser("WITH MAX_USER_CONNECTIONS 0") + ", or mysql_max_connections of the workers to less (this one takes up to " + fmt.Sprint(t.config.MaxOpen) + ")"
	case 1820, 1862:
		return "the password of " + user + " has expired", t.alterUser("IDENTIFIED BY '...' PASSWORD EXPIRE NEVER")
	case 3118, 4151:
		return "the account of " + user + " is locked", t.alterUser("ACCOUNT UNLOCK")
	case 3159:
		return "the server at " + t.way() + " takes TLS connections only, which this program does not make", "SET GLOBAL require_secure_transport = OFF, or a socket in mysql_host, or a tunnel on this host"
	case 1251, 1524:
		return "the server at " + t.way() + " knows " + user + " by a method that this program or the server lacks", t.alterUser("IDENTIFIED BY '...'")
	case 1290, 1792, 1836:
		return "the server at " + t.way() + " takes no writes: a replica, or one that was demoted", "let mysql_host lead to the one that does"
	}
	return "", ""
}

// refused explains that the server did not let the user in.
func (t *Table) refused(err error) (what, remedy string) {
	_, host := t.seenAs(err)
	how := "with the password of mysql_password"
	if strings.HasSuffix(words(err), "(using password: NO)") {
		how = "without a password (mysql_password is empty)"
	}
	what = fmt.Sprintf("the server at %s does not let in user %s (mysql_user), who comes from host %s as it sees it, %s", t.way(), literal(t.config.User), literal(host), how)
	remedy = fmt.Sprintf("as an administrator: SELECT user, host, plugin FROM mysql.user WHERE user IN (%s, ''); of these the one with the nearest host counts, so that an anonymous one (''@%s) "+
		"goes before %s: DROP USER ''@%s then; else correct mysql_user and mysql_password, or: %s; where the account or the server requires TLS (REQUIRE SSL, require_secure_transport), this program is not let in",
		literal(t.config.User), literal(host), accountName(t.config.User, "%"), literal(host), t.createAccount(host))
	return what, remedy
}

// madeFirst is said of what a GRANT is to be for: without it the GRANT fails.
const madeFirst = ", which may be missing: then make it before the GRANT, as README.md does (Use it for real)"

// denied explains that the account lacks privileges, or that it is another one than was meant.
func (t *Table) denied(n uint16, err error) (what, remedy string) {
	account := t.accountOf(err)
	if strings.HasPrefix(account, "''@") && t.config.User != "" {
		_, host, _ := strings.Cut(account, "@")
		return fmt.Sprintf("the server at %s takes user %s (mysql_user) for the anonymous account %s, which goes before %s", t.way(), literal(t.config.User), account, accountName(t.config.User, "%")),
			"DROP USER " + account + ", or CREATE USER " + literal(t.config.User) + "@" + host + " IDENTIFIED BY '...' (mysql_password)"
	}
	privilege, _, found := strings.Cut(words(err), " command denied")
	what = fmt.Sprintf("account %s (mysql_user) on the server at %s ", account, t.way())
	switch {
	case n == errDeniedDatabase:
		what += "has no privilege in database " + literal(t.name.database) + " (mysql_database)" + madeFirst
	case found && n == errDeniedColumn:
		what += "lacks the privilege " + privilege + " on a column of table " + t.name.quoted() + " (mysql_table)"
	case found:
		what += "lacks the privilege " + privilege + " on table " + t.name.quoted() + " (mysql_table)" + madeFirst
	default:
		what += "lacks a privilege"
	}
	if n == errDeniedColumn && t.config.Uses.Any() {
		return what, t.grantColumns(account)
	}
	return what, t.grant(account)
}

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
