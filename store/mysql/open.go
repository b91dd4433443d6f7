package mysql

import (
	"database/sql"
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// New makes a table. It connects when it is first used; its errors are about the configuration.
func New(config Config) (*Table, error) {
	config = config.withDefaults()
	name, err := config.name()
	if err != nil {
		return nil, fmt.Errorf("mysql table %s: %w", config.Table, err)
	}
	connector, err := driver.NewConnector(config.driver())
	if err != nil {
		return nil, fmt.Errorf("mysql table %s: %w", config.Table, err)
	}
	t := &Table{config: config, name: name, clients: make(chan struct{}, config.MaxOpen-reserved)}
	t.servers.OnServer, t.layout.Examine = config.OnServer, t.Check
	t.failures = rule.Failures{
		IsDubious: isDubious, IsUnusable: isUnusable, IsUnreachable: isUnreachable,
		Check: t.checkAlone, Forget: func() { t.layout.Store(nil) }, Explain: t.explained,
	}
	t.db = sql.OpenDB(prompt{sessions{connector, t}, config.ReadTimeout})
	t.db.SetMaxOpenConns(config.MaxOpen - 1) // the advisory locks have a connection of their own
	t.db.SetMaxIdleConns(config.MaxOpen - 1)
	t.db.SetConnMaxLifetime(connMaxLifetime)
	t.db.SetConnMaxIdleTime(connMaxIdle)
	return t, nil
}

// Close implements store.Table.
func (t *Table) Close() error { return errors.Join(t.advisory.close(), t.db.Close()) }

var (
	_ store.Table     = (*Table)(nil)
	_ store.Inspector = (*Table)(nil)
)
