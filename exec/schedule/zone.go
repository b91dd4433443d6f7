package schedule

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // for hosts without a tz database
)

// zones are those that were loaded, by name. All plans of a process are made with the same rules: a
// new tz database of the host takes effect when the process starts.
var zones sync.Map

// longestZone is what the column takes; the longest name has 32 characters.
const longestZone = 64

// Zone is a zone by its name in the tz database of IANA, as Europe/Berlin or UTC. The host's
// database wins over the one that is built in, which is for hosts without: governments change the
// rules within weeks, and the host's is updated with it, for all of its programs alike. The
// environment's TZ has no influence; a folder or zip file that ZONEINFO names comes first, as in
// every Go program.
func Zone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if err := judgeZone(name); err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone(name)
	}
	zones.Store(name, zone)
	return zone, nil
}

const writeZone = "write a name of the tz database, as Europe/Berlin, or UTC"

// judgeZone refuses what is no name of the tz database, though the host may have a file of that name.
func judgeZone(name string) error {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return errors.New("the time zone is empty: " + writeZone)
	case strings.EqualFold(name, "local") || name == "localtime":
		return fmt.Errorf("time zone %q: it differs from host to host: %s", name, writeZone)
	case len(name) > longestZone, path.Clean(name) != name, slices.Contains([]string{"right", "posix", "posixrules", "Factory"}, first):
		return unknownZone(name)
	}
	return nil
}

func unknownZone(name string) error {
	return fmt.Errorf("time zone %.*q is not known: %s", longestZone, name, writeZone)
}
