package mysql

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	driver "github.com/go-sql-driver/mysql"
)

// explained adds to an error of the way to the table which keys lead there, and what mends it. The
// server's own words say what is wrong, and come first.
func (t *Table) explained(err error) error {
	if remedy := t.remedy(err); remedy != "" {
		return fmt.Errorf("%w: %s; %s", err, t.way(), remedy)
	}
	return err
}

// remedy is what mends an error; "" where its own words say all. The server may take a refused client
// for another account than was meant: the statement makes the one that the configuration names.
func (t *Table) remedy(err error) string {
	const (
		connections = "raise the server's limit, or lower mysql_max_connections of the workers (this one takes up to %d)"
		schema      = "set mysql_database and mysql_table to what the server has"
		readOnly    = "point mysql_host at the server that takes writes"
		needsTLS    = "set mysql_tls = verify, and mysql_tls_ca to a file with the authority of the server's certificate"
		noTLS       = "give the server a certificate (ssl_cert, ssl_key), or remove mysql_tls if nobody can be in between"
		untrusted   = "set mysql_tls_ca to the authority of the server's certificate, and mysql_tls_name to a name that the certificate has"
	)
	var unverified *tls.CertificateVerificationError
	n := number(err)
	isAccount := slices.Contains([]uint16{1044, 1045, 1130, 1142, 1143, 1251, 1524, 1698, 1820, 1862, 3118, 4151}, n)
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return "mend mysql_tls_ca, mysql_tls_cert and mysql_tls_key"
	case errors.Is(err, driver.ErrNoTLS):
		return noTLS
	case errors.As(err, &unverified):
		return untrusted
	case isAccount, slices.ContainsFunc(driverRefusals(), func(refusal error) bool { return errors.Is(err, refusal) }):
		return t.account(err)
	case n == 1049, n == 1146:
		return schema
	case n == 1040, n == 1129, n == 1203, n == 1226:
		return fmt.Sprintf(connections, t.config.MaxOpen)
	case n == 3159:
		return needsTLS
	case isReadOnly(err):
		return readOnly
	case n == 0 && lostLink(err):
		return "start the server, or correct mysql_host and mysql_port"
	}
	return ""
}

// account is the statements that make the account of mysql_user and let it do what it must.
func (t *Table) account(err error) string {
	host := "%"
	if found := hostInText.FindStringSubmatch(err.Error()); found != nil {
		host = found[1]
	}
	grant := "GRANT SELECT, UPDATE ON " + t.name.quoted() + " TO " + accountName(t.config.User, "%")
	switch number(err) {
	case 1044, 1142, 1143:
		return grant
	case 3118, 4151:
		return "ALTER USER " + accountName(t.config.User, "%") + " ACCOUNT UNLOCK"
	}
	key := ""
	if number(err) == 1045 && !t.config.isNear() && t.config.ServerKey == "" && (t.config.TLS == nil || t.config.PreferTLS) {
		key = wantsKey
	}
	return "correct mysql_user and mysql_password" + key + "; or, as an administrator: CREATE USER " + accountName(t.config.User, host) +
		" IDENTIFIED BY '...'; " + strings.Replace(grant, "@'%'", "@"+literal(host), 1) +
		"; an anonymous account (SELECT user, host, plugin FROM mysql.user) may go before it: DROP USER ''@" + literal(host)
}

// hostInText finds this host in the server's words: 'jobd'@'localhost', or Host '10.0.0.7' is not
// allowed.
var hostInText = regexp.MustCompile(`(?:@|[Hh]ost )'([^']*)'`)

// driverRefusals are errors that the driver itself finds in an account or a server.
func driverRefusals() []error {
	return []error{
		driver.ErrCleartextPassword, driver.ErrNativePassword, driver.ErrOldPassword,
		driver.ErrUnknownPlugin, driver.ErrOldProtocol,
	}
}

// way is where the server is and who asks it, with the keys that say so.
func (t *Table) way() string {
	where := net.JoinHostPort(t.config.Host, strconv.Itoa(t.config.Port)) + " (mysql_host, mysql_port)"
	if strings.HasPrefix(t.config.Host, "/") {
		where = t.config.Host + " (mysql_host)"
	}
	return fmt.Sprintf("table %s at %s, user %s (mysql_user)", t.name.quoted(), where, literal(t.config.User))
}
