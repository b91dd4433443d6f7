package mysql

import (
	"fmt"
	"slices"
	"strings"

	"jobd/store/internal/rule"
)

// version is what a server says it is.
type version struct {
	number  []int // major, minor, patch
	mariaDB bool
}

// parseVersion reads a version as @@version gives it, "10.11.6-MariaDB-log" or "9.1.0". TiDB passes
// for MySQL, takes SKIP LOCKED and locks nothing (pitfall 47): jobs would be started twice.
func parseVersion(text string) (version, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return version{}, rule.Misfit{Text: fmt.Sprintf("the server's version %q is not understood: %v", text, err)}
	}
	lower := strings.ToLower(text)
	if strings.Contains(lower, "tidb") {
		return version{}, rule.Misfit{Text: fmt.Sprintf("the server is TiDB (%s), whose locks do not keep two workers from one row: let mysql_host lead to MySQL or MariaDB", text)}
	}
	return version{[]int{major, minor, patch}, strings.Contains(lower, "mariadb")}, nil
}

// since tells whether the server is one of MySQL's or MariaDB's versions from these on.
func (v version) since(mySQL, mariaDB []int) bool {
	first := mySQL
	if v.mariaDB {
		first = mariaDB
	}
	return slices.Compare(v.number, first) >= 0
}

// skipsLocked tells whether reading rows can pass by those that somebody else has locked (pitfall 3).
func (v version) skipsLocked() bool { return v.since([]int{8, 0, 1}, []int{10, 6, 0}) }

// locking is the clause that locks rows. Where the server can't pass by the locks of others, it waits
// for them.
func (v version) locking() string {
	if v.skipsLocked() {
		return "FOR UPDATE SKIP LOCKED"
	}
	return "FOR UPDATE"
}

// String is the version in words.
func (v version) String() string {
	kind := "MySQL"
	if v.mariaDB {
		kind = "MariaDB"
	}
	return fmt.Sprintf("%s %d.%d.%d", kind, v.number[0], v.number[1], v.number[2])
}

// descends tells whether indexes can be in descending order. Older servers take the word and make an
// ascending one.
func (v version) descends() bool { return v.since([]int{8, 0, 1}, []int{10, 8, 0}) }

// manyLocks tells whether a connection can have several advisory locks at once; before, each gave
// back the one before it.
func (v version) manyLocks() bool { return v.since([]int{5, 7, 5}, []int{10, 0, 2}) }
