package schedule_test

import (
	"archive/zip"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/exec/schedule"
	"jobd/store/storetest/must"
)

// The fifty years that are looked at: Kwajalein and Kiritimati, which left a day out, are in them,
// and times to come, which follow from rules only. TORTURE=long adds those before and after.
var (
	fromYear = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	toYear   = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

func long() bool { return os.Getenv("TORTURE") == "long" }

func TestMain(m *testing.M) {
	flag.Parse()
	checks := "200"
	if long() {
		checks = "50000"
		fromYear = time.Date(1973, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		toYear = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	if given := flag.Lookup("rapid.checks"); given.Value.String() == given.DefValue {
		if err := given.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// tzdb is every zone of the tz database that is built in, by name and by what is in its file: half
// of the names stand for zones that others stand for, too.
type tzdb struct {
	names    []string
	distinct []*time.Location
	changes  map[*time.Location][]int64
}

// database reads the file of which time/tzdata was made.
var database = sync.OnceValues(func() (*tzdb, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	files, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer files.Close()
	db := &tzdb{changes: map[*time.Location][]int64{}}
	met := map[string]bool{}
	for _, file := range files.File {
		r, err := file.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if file.Name == "Factory" || strings.HasSuffix(file.Name, "/") {
			continue // it is for hosts that nobody has set up
		}
		db.names = append(db.names, file.Name)
		zone, err := schedule.Zone(file.Name)
		if err != nil {
			return nil, err
		}
		if !met[string(content)] {
			met[string(content)] = true
			db.distinct = append(db.distinct, zone)
			db.changes[zone] = changesOf(zone)
		}
	}
	return db, nil
})

// changesOf finds a zone's changes of clocks by looking at the clock once a day.
func changesOf(zone *time.Location) []int64 {
	offset := func(moment int64) int {
		_, offset := time.Unix(moment, 0).In(zone).Zone()
		return offset
	}
	const step = day
	var changes []int64
	for moment := fromYear; moment < toYear; moment += step {
		before := offset(moment)
		if offset(moment+step) == before {
			continue
		}
		low, high := moment, moment+step
		for high-low > 1 {
			if middle := (low + high) / 2; offset(middle) == before {
				low = middle
			} else {
				high = middle
			}
		}
		changes = append(changes, high)
	}
	return changes
}

func zones(t *testing.T) *tzdb {
	t.Helper()
	db := must.Get(database())(t)
	return db
}
