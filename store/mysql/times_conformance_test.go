package mysql_test

import (
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest"
)

// withTimes is the usual table with the optional columns.
func withTimes() string {
	return replaced(
		"'ignored')", "'ignored','delayed')",
		"  PRIMARY KEY", "  `run_at` int UNSIGNED NOT NULL DEFAULT 0,\n  `planned_at` int UNSIGNED NOT NULL DEFAULT 0,\n"+
			"  `schedule` varchar(64) DEFAULT NULL,\n  `time_zone` varchar(64) DEFAULT NULL,\n  `attempts` smallint UNSIGNED NOT NULL DEFAULT 0,\n"+
			"  `max_attempts` smallint UNSIGNED DEFAULT NULL,\n  `timeout` int UNSIGNED DEFAULT NULL,\n  `priority` tinyint NOT NULL DEFAULT 0,\n"+
			"  `unique_key` varchar(64) DEFAULT NULL UNIQUE,\n  PRIMARY KEY",
		"\n) ENGINE", ",\n  KEY `due_idx` (`status`, `target`, `run_at`),\n  KEY `priority_idx` (`status`, `target`, `priority` DESC, `id`)\n) ENGINE",
	)
}

func TestConformanceOfTimes(t *testing.T) {
	t.Parallel()
	storetest.RunTimes(t, func(t *testing.T) storetest.Fixture {
		db := newDatabase(t, withTimes())
		config := db.config()
		config.Uses = store.TimeColumns()
		return storetest.Fixture{DB: db.app, Table: confirmed(t, open(t, config)), Other: db.table(t), RowLocks: true, Charset: journal.CharsetThreeByte}
	})
}
