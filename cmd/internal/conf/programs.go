package conf

import (
	"slices"
	"strings"
)

// programKeys are the keys that only one of the programs has, so that one in the wrong file is told
// from a slip of the pen. A test of each program compares them with what it registers.
func programKeys() map[string][]string {
	return map[string][]string{
		"jobd": {
			"name", "master_host", "master_reconnect_timeout",
			"mysql_host", "mysql_port", "mysql_user", "mysql_password", "mysql_password_file", "mysql_server_public_key", "mysql_database", "mysql_table", "mysql_fetch_limit", "mysql_max_connections",
			"store", "sqlite_path", "claim_column",
			"launcher", "launcher_split", "launcher.cwd", "launcher_mode", "launcher_watch", "launcher_secret", "launcher_secret_file",
			"max_jobs", "max_age", "max_memory", "idle_timeout", "boot_timeout", "max_output_buffer", "prefetch", "poll_interval",
			"journal_dir", "journal_segment_size", "journal_segment_age", "journal_retention", "journal_archive_dir", "journal_min_free",
			"use_columns", "time_zone", "missed",
			"launch_offline", "on_crash", "max_attempts", "lost_after", "shutdown_timeout", "on_stop",
		},
		"jobd-master": {"ping_interval", "poke_throttle_interval"},
		"jobctl":      {"master", "log_level", "output", "precise", "timeout"},
	}
}

// ProgramKeys are the keys that, of the three programs, only the named one has.
func ProgramKeys(program string) []string { return programKeys()[program] }

// ownerOf is the other program that has a key; "" if there is none.
func (s *Set) ownerOf(key string) string {
	for program, keys := range programKeys() {
		if program != s.program.Name && (slices.Contains(keys, key) || program == "jobd" && strings.HasPrefix(key, "launcher.env.")) {
			return program
		}
	}
	return ""
}
