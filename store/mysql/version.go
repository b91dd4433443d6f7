package mysql

import (
	"fmt"
	"slices"
	"strings"
)

// version is what a server says it is.
type version struct {
	number  []int // major, minor, patch
	mariaDB bool
}

// parseVersion reads a version as @@version gives it, "10.11.6-MariaDB-log" or "9.1.0".
func parseVersion(text string) (version, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return version{}, unfit("the server's version %q is not understood: %v", text, err)
	}
	return version{
		number:  []int{major, minor, patch},
		mariaDB: strings.Contains(strings.ToLower(text), "mariadb"),
	}, nil
}

// locking is the clause that locks rows for a claim. Servers that do not know
// SKIP LOCKED wait for rows that another claim has (pitfall 3).
func (v version) locking() string {
	since := []int{8, 0, 1}
	if v.mariaDB {
		since = []int{10, 6, 0}
	}
	if slices.Compare(v.number, since) < 0 {
		return "FOR UPDATE"
	}
	return "FOR UPDATE SKIP LOCKED"
}
