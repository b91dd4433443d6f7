package harness

import (
	"strings"

	"jobd/store/storetest/dbserver"
)

// TimesTable is the statement that makes the jobs table with all columns about time, and the indexes
// that claims need for them.
var TimesTable = strings.NewReplacer(
	"'ignored')", "'ignored','delayed')",
	"  PRIMARY KEY (`id`),\n", "  `run_at` int(10) UNSIGNED NOT NULL DEFAULT 0,\n"+
		"  `planned_at` int(10) UNSIGNED NOT NULL DEFAULT 0,\n"+
		"  `schedule` varchar(64) DEFAULT NULL,\n"+
		"  `time_zone` varchar(64) DEFAULT NULL,\n"+
		"  `attempts` smallint UNSIGNED NOT NULL DEFAULT 0,\n"+
		"  `max_attempts` smallint UNSIGNED DEFAULT NULL,\n"+
		"  `timeout` int(10) UNSIGNED DEFAULT NULL,\n"+
		"  `priority` tinyint NOT NULL DEFAULT 0,\n"+
		"  `unique_key` varchar(190) DEFAULT NULL,\n"+
		"  PRIMARY KEY (`id`),\n"+
		"  UNIQUE KEY `unique_key` (`unique_key`),\n"+
		"  KEY `due_idx` (`status`, `target`, `run_at`),\n"+
		"  KEY `priority_idx` (`status`, `target`, `priority` DESC, `id`),\n",
).Replace(dbserver.JobsTable)

// UsesAll has a worker use all columns about time.
var UsesAll = Settings{"use_columns": "all"}

// Terms are the keys of the section about one target, as Settings have them.
func Terms(target string, keys Settings) Settings {
	s := Settings{}
	for key, value := range keys {
		s["[target "+target+"] "+key] = value
	}
	return s
}
