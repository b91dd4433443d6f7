package schedule

import (
	"errors"
	"fmt"
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
	case len(name) > longestZone:
		return fmt.Errorf("time zone %.40q…: %d characters are too long: %s", name, len(name), writeZone)
	case strings.EqualFold(name, "local") || name == "localtime":
		return fmt.Errorf("time zone %q: it differs from host to host: %s", name, writeZone)
	case offset(name):
		return fmt.Errorf("time zone %q: an offset has no rules for summer time: %s", name, writeZone)
	case first == "right" || first == "posix" || name == "posixrules" || name == "Factory":
		return fmt.Errorf("time zone %q is none of a place: %s", name, writeZone)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, letters) != "" {
			return unknownZone(name)
		}
	}
	return nil
}

// letters are those of which names are made.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-"

// offset reports whether a name is a distance from UTC: +02:00, UTC+2, GMT-3. The tz database itself
// has three such names, all of them for UTC.
func offset(name string) bool {
	if name == "GMT0" || name == "GMT+0" || name == "GMT-0" {
		return false
	}
	upper := strings.ToUpper(name)
	rest := strings.TrimPrefix(strings.TrimPrefix(upper, "UTC"), "GMT")
	return strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") || digits(rest) || upper == "Z"
}

// unknownZone is the error about a name that no database has. Names are written in one way only, so
// the usual one is tried.
func unknownZone(name string) error {
	if usual := capitals(name); usual != name {
		if _, err := Zone(usual); err == nil {
			return fmt.Errorf("time zone %q is not known: write %s", name, usual)
		}
	}
	return fmt.Errorf("time zone %q is not known: %s", name, writeZone)
}

// capitals writes a name as most are written: europe/berlin as Europe/Berlin, utc as UTC.
func capitals(name string) string {
	if upper := strings.ToUpper(name); !strings.Contains(name, "/") {
		return upper
	}
	usual := []byte(strings.ToLower(name))
	for i, letter := range usual {
		if (i == 0 || strings.ContainsRune("/_-", rune(usual[i-1]))) && 'a' <= letter && letter <= 'z' {
			usual[i] = letter - 'a' + 'A'
		}
	}
	return string(usual)
}
