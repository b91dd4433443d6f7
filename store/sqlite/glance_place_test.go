package sqlite_test

import (
	"testing"

	"jobd/store"
	"jobd/store/sqlite"
)

// Where there is a device is no place for a table.
func TestPlacesThatTakeNoFile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/dev/null", "/dev/full"} {
		found, _, err := sqlite.Glance(t.Context(), sqlite.Config{Path: path, Table: "jobs", ClaimColumn: "sig", Worker: "w"}, nil)
		if err != nil || len(found) != 1 || found[0].Severity != store.Fault {
			t.Errorf("%s: %+v, %v, want one fault", path, found, err)
		}
	}
}
