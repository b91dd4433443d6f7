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
	tiDB    bool
}

// parseVersion reads a version as @@version gives it, "10.11.6-MariaDB-log", "9.1.0" or
// "8.0.11-TiDB-v7.5.0".
func parseVersion(text string) (version, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return version{}, rule.Misfit{Text: fmt.Sprintf("the server's version %q is not understood: %v", text, err)}
	}
	lower := strings.ToLower(text)
	return version{
		number:  []int{major, minor, patch},
		mariaDB: strings.Contains(lower, "mariadb"),
		tiDB:    strings.Contains(lower, "tidb"),
	}, nil
}

// since tells whether the server is one of MySQL's or MariaDB's versions from these on.
func (v version) since(mySQL, mariaDB []int) bool {
	first := mySQL
	if v.mariaDB {
		first = mariaDB
	}
	return slices.Compare(v.number, first) >= 0
}

// locking is a clause that locks rows.
type locking string

// The clauses. Locks that somebody else has are passed by, are an error at once, or are waited for.
const (
	skipLocked locking = "FOR UPDATE SKIP LOCKED"
	noWait     locking = "FOR UPDATE NOWAIT"
	forUpdate  locking = "FOR UPDATE"
)

// locking is the best clause that the server knows (pitfall 3). TiDB takes SKIP LOCKED and locks
// nothing (pitfall 47).
func (v version) locking() locking {
	switch {
	case v.tiDB:
		return noWait
	case v.since([]int{8, 0, 1}, []int{10, 6, 0}):
		return skipLocked
	case v.since([]int{8, 0, 1}, []int{10, 3, 0}):
		return noWait
	default:
		return forUpdate
	}
}

// begin opens a transaction that locks rows when they are read. TiDB may be set up to do so at
// COMMIT only; the others take its word for a comment.
func (v version) begin() string {
	if v.tiDB {
		return "BEGIN /*T! PESSIMISTIC */; "
	}
	return begin
}

// String is the version in words.
func (v version) String() string {
	kind := "MySQL"
	switch {
	case v.mariaDB:
		kind = "MariaDB"
	case v.tiDB:
		kind = "TiDB"
	}
	return fmt.Sprintf("%s %d.%d.%d", kind, v.number[0], v.number[1], v.number[2])
}

// descends tells whether indexes can be in descending order. Older servers, and TiDB, take the word
// and make an ascending one.
func (v version) descends() bool { return !v.tiDB && v.since([]int{8, 0, 1}, []int{10, 8, 0}) }

// manyLocks tells whether a connection can have several advisory locks at once; before, each gave
// back the one before it.
func (v version) manyLocks() bool { return v.since([]int{5, 7, 5}, []int{10, 0, 2}) }

// readsUncommitted tells whether the server has that isolation level. TiDB does not, and its
// transactions show nothing of theirs before they commit.
func (v version) readsUncommitted() bool { return !v.tiDB }
