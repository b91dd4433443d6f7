package mysql

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store/internal/rule"
)

// explained adds to an error of the way to the table which keys lead there. The server's own words say what
// is wrong, and come first. What was found wrong with the table says itself what it is about.
func (t *Table) explained(err error) error {
	var misfit rule.Misfit
	if errors.As(err, &misfit) {
		return err
	}
	key := ""
	if number(err) == 1045 && !t.config.isNear() && t.config.ServerKey == "" && (t.config.TLS == nil || t.config.PreferTLS) {
		key = wantsKey
	}
	return fmt.Errorf("%w: %s%s", err, t.way(), key)
}

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
	if t.config.TLS != nil {
		where += " with TLS (mysql_tls_ca, mysql_tls_name)"
	}
	return fmt.Sprintf("table %s at %s, user %s (mysql_user)", t.name.quoted(), where, literal(t.config.User))
}
