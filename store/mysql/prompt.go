package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// prompt makes connections to a server that answers. The driver bounds each answer, and says of one
// that did not come only that the connection is invalid.
type prompt struct {
	sqldriver.Connector
	within time.Duration
}

// Connect implements driver.Connector.
func (p prompt) Connect(ctx context.Context) (sqldriver.Conn, error) {
	begun := time.Now()
	conn, err := p.Connector.Connect(ctx)
	if errors.Is(err, driver.ErrInvalidConn) && time.Since(begun) >= p.within {
		err = &silentServerError{p.within}
	}
	return conn, err
}

// silentServerError says that a server takes connections, and no more. It is a net.Error, as that of a
// dial in vain is.
type silentServerError struct{ within time.Duration }

// Error implements error.
func (e *silentServerError) Error() string {
	return fmt.Sprintf("the server took the connection, and has not answered within %v", e.within)
}

// Timeout implements net.Error.
func (e *silentServerError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *silentServerError) Temporary() bool { return true }
