package mysql

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"

	"jobd/store"
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
