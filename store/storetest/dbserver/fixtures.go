package dbserver

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// JobsTable is the jobs table as applications make it.
const JobsTable = "CREATE TABLE `jobs` (\n" +
	"  `id` int(10) UNSIGNED NOT NULL AUTO_INCREMENT,\n" +
	"  `target` char(16) NOT NULL,\n" +
	"  `time_created` int(10) UNSIGNED NOT NULL,\n" +
	"  `time_started` int(10) UNSIGNED NOT NULL DEFAULT 0,\n" +
	"  `time_finished` int(10) UNSIGNED NOT NULL DEFAULT 0,\n" +
	"  `status` enum('waiting','manual','accepted','running','done','ignored') NOT NULL DEFAULT 'waiting',\n" +
	"  `result` enum('ok','fail') DEFAULT NULL,\n" +
	"  `return_code` tinyint(3) UNSIGNED DEFAULT NULL,\n" +
	"  `sig` char(10) DEFAULT NULL,\n" +
	"  `stdout` mediumtext DEFAULT NULL,\n" +
	"  `stderr` mediumtext DEFAULT NULL,\n" +
	"  PRIMARY KEY (`id`),\n" +
	"  KEY `status_target_idx` (`status`, `target`, `id`)\n" +
	") ENGINE=InnoDB DEFAULT CHARSET=utf8"

// Account is a database account.
type Account struct{ User, Password string }

// CreateDatabase makes a database with the tables that the statements create.
func (s *Server) CreateDatabase(ctx context.Context, name string, tables ...string) error {
	statements := append([]string{"CREATE DATABASE " + name, "USE " + name}, tables...)
	if _, err := s.admin.ExecContext(ctx, strings.Join(statements, ";\n")); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// CreateAccount makes an account with exactly the given grants, as in "SELECT, UPDATE ON db.jobs".
func (s *Server) CreateAccount(ctx context.Context, account Account, grants ...string) error {
	for _, host := range []string{"%", "localhost"} {
		if _, err := s.admin.ExecContext(ctx, "CREATE USER ?@? IDENTIFIED BY ?", account.User, host, account.Password); err != nil {
			return fmt.Errorf("create account %s: %w", account.User, err)
		}
		for _, grant := range grants {
			if _, err := s.admin.ExecContext(ctx, "GRANT "+grant+" TO ?@?", account.User, host); err != nil {
				return fmt.Errorf("grant %s to %s: %w", grant, account.User, err)
			}
		}
	}
	return nil
}

// Limited makes the account that the daemons run with: it may SELECT and UPDATE
// the database's table jobs, and nothing else.
func (s *Server) Limited(ctx context.Context, database string) (Account, error) {
	account := Account{User: "u_" + database, Password: `it's "p@ss"/word?#%&:` + database}
	return account, s.CreateAccount(ctx, account, "SELECT, UPDATE ON "+database+".jobs")
}

// Open is a connection pool of the administrator's in the database, as the
// application has one; the caller closes it.
func (s *Server) Open(database string) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "unix", s.Socket(), database
	config.MultiStatements, config.InterpolateParams = true, true
	config.Logger = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", database, err)
	}
	return sql.OpenDB(connector), nil
}
