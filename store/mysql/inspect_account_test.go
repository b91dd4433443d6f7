package mysql_test

import (
	"slices"
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// Regression: rights on three columns and more were taken for rights that are not needed.
func TestRightsOnColumnsAreNotTooMany(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, newServer(t), dbserver.JobsTable)
	config := db.config()
	config.User, config.Password = "few", "hunter2"
	db.exec(t, "CREATE USER few@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE (status, result, return_code, sig, stdout, stderr, time_started, time_finished) ON jobs TO few@'%'")
	told := func() string {
		t.Helper()
		seen := must.Get(open(t, config).Inspect(t.Context()))(t)
		if at := slices.IndexFunc(seen.Findings, func(f store.Finding) bool { return strings.HasPrefix(f.Where, "account few@") }); at >= 0 {
			return seen.Findings[at].What
		}
		return ""
	}
	if what := told(); what != "" {
		t.Errorf("of an account with the rights it needs: %s", what)
	}
	db.exec(t, "GRANT INSERT (status, target, id) ON jobs TO few@'%'")
	if what := told(); !strings.Contains(what, "it may do more than a worker needs") {
		t.Errorf("of an account that may insert: %q", what)
	}
}
