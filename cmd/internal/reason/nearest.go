package reason

import (
	"net"
	"strings"
)

// nearest is the one of some names that somebody who wrote another one most likely meant; "" where
// none is like it.
func nearest(name string, known []string) (best string) {
	least := len(name)/2 + 1
	for _, one := range known {
		if strings.EqualFold(strings.TrimSpace(one), strings.TrimSpace(name)) {
			return one
		}
		if changes := distance([]rune(name), []rune(one)); changes < least {
			best, least = one, changes
		}
	}
	return best
}

// distance is how many characters are to be changed, added or left out to come from one name to
// the other.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := before
			if x != y {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// whoOf is who wanted something, without the port of an address, which tells a reader nothing, and
// without the master that has handed it on.
func whoOf(by string) string {
	first, _, _ := strings.Cut(by, " via ")
	if name, _, err := net.SplitHostPort(first); err == nil {
		return name
	}
	return first
}
