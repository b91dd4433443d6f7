package mysql

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"jobd/store"
)

// inspectAccount says as whom the server takes the worker, and warns of rights beyond SELECT and
// UPDATE.
func (t *Table) inspectAccount(ctx context.Context, conn *sql.Conn, seen *store.Inspection) error {
	var account string
	if err := conn.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&account); err != nil {
		return err
	}
	where := "account " + account
	rows, err := conn.QueryContext(ctx, "SHOW GRANTS")
	if err != nil {
		return err
	}
	defer rows.Close()
	var beyond, remedies []string
	for rows.Next() {
		var grant string
		if err := rows.Scan(&grant); err != nil {
			return err
		}
		if rights := excess(grant); rights != "" {
			what, remedy := t.revoke(grant, rights)
			beyond = append(beyond, what)
			if !slices.Contains(remedies, remedy) {
				remedies = append(remedies, remedy)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if user, _, _ := strings.Cut(account, "@"); user == "" {
		seen.Findings = append(seen.Findings, warning(where, "the server takes the worker for the anonymous user, not for "+strconv.Quote(t.config.User),
			"DROP USER "+quoteAccount(account)+", and grant to the account that is configured"))
	}
	if len(beyond) > 0 {
		seen.Findings = append(seen.Findings, warning(where, "it may do more than a worker needs: "+strings.Join(beyond, ", "), strings.Join(remedies, "; ")))
		return nil
	}
	seen.Facts = append(seen.Facts, where+" has no more rights than it needs")
	return nil
}

// excess is what a line of SHOW GRANTS gives beyond SELECT and UPDATE on something that is no whole
// server. Nothing of it is a password: that stands behind the account's name.
func excess(grant string) string {
	rights, object, found := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON ")
	if !found {
		return "" // a role
	}
	object, _, _ = strings.Cut(object, " TO ")
	all := object == "*.*"
	for right := range strings.SplitSeq(columns.ReplaceAllString(rights, ""), ",") {
		switch strings.TrimSpace(right) {
		case "USAGE", "PROXY":
		case "SELECT", "UPDATE":
			if all {
				return rights + " on " + object
			}
		default:
			return rights + " on " + object
		}
	}
	return ""
}

// columns are those of a right that is not about all of a table.
var columns = regexp.MustCompile("\\((?:`(?:[^`]|``)*`|[^`)])*\\)")

// grantee finds who has what a line of SHOW GRANTS gives, where that is not the account itself: a
// role of its, or PUBLIC, which is everybody.
var grantee = regexp.MustCompile(" TO (PUBLIC|`[^`@]*`)(?: |$)")

// revoke says what a line of SHOW GRANTS gives beyond what is needed, and how that is taken away:
// a REVOKE from the account does nothing about what a role or PUBLIC has.
func (t *Table) revoke(grant, rights string) (what, remedy string) {
	remedy = "REVOKE what is beyond SELECT and UPDATE on " + t.name.quoted()
	who := grantee.FindStringSubmatch(grant)
	if who == nil {
		return rights, remedy
	}
	_, object, _ := strings.Cut(rights, " on ")
	if !t.isWithin(object) {
		remedy = "REVOKE ALL PRIVILEGES ON " + object
	}
	return rights + " as " + who[1], remedy + " FROM " + who[1]
}

// isWithin tells whether what rights are about has the table in it. A database there is a pattern, as
// of LIKE.
func (t *Table) isWithin(object string) bool {
	quoted := strings.HasPrefix(object, "`")
	end := strings.LastIndex(object, "`.")
	if !quoted || end < 1 {
		return true // of the whole server, or what nobody knows
	}
	pattern := "(?is)^"
	for rest := strings.ReplaceAll(object[1:end], "``", "`"); rest != ""; {
		first, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		switch {
		case first == '%':
			pattern += ".*"
		case first == '_':
			pattern += "."
		case first == '\\' && rest != "":
			first, size = utf8.DecodeRuneInString(rest)
			rest = rest[size:]
			fallthrough
		default:
			pattern += regexp.QuoteMeta(string(first))
		}
	}
	matches, err := regexp.MatchString(pattern+"$", t.name.database)
	return matches || err != nil
}

func quoteAccount(account string) string {
	user, host, _ := strings.Cut(account, "@")
	return "'" + user + "'@'" + host + "'"
}
