package mysql

import (
	"fmt"
	"strings"
)

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
