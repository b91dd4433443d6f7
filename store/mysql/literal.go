package mysql

import (
	"strings"
)

// literal makes a text in quotes of any text.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// accountName is an account as statements need it.
func accountName(user, host string) string { return literal(user) + "@" + literal(host) }

// quote makes an identifier of any text.
func quote(identifier string) string {
	return "`" + strings.ReplaceAll(identifier, "`", "``") + "`"
}
