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
	"syscall"
	"testing"
	"time"

	"jobd/exec/schedule"
	"jobd/store/storetest/check"
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

func TestZonesAreNamesOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range zones(t).names {
		zone := must.Get(schedule.Zone(name))(t)
		check.Equal(t, zone.String(), name, "%v", zone)
	}
}

func TestOtherZonesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, said string }{
		{"", "is empty: write a name of the tz database, as Europe/Berlin, or UTC"},
		{"Local", "differs from host to host"},
		{"local", "differs from host to host"},
		{"localtime", "differs from host to host"},
		{"+02:00", "is not known"},
		{"-0500", "is not known"},
		{"2", "is not known"},
		{"UTC+2", "is not known"},
		{"utc-05:00", "is not known"},
		{"GMT+2", "is not known"},
		{"Z", "is not known"},
		{"europe/berlin", "is not known"},
		{"EUROPE/BERLIN", "is not known"},
		{"america/new_york", "is not known"},
		{"utc", "is not known"},
		{"Europe/Atlantis", "is not known: write a name"},
		{"Berlin", "is not known: write a name"},
		{"Europe", "is not known"},
		{"Europe/", "is not known"},
		{"/usr/share/zoneinfo/Europe/Berlin", "is not known"},
		{"../zoneinfo/Europe/Berlin", "is not known"},
		{"Europe/../Europe/Berlin", "is not known"},
		{"Europe//Berlin", "is not known"},
		{"Europe/./Berlin", "is not known"},
		{"right/Europe/Berlin", "is not known"},
		{"posix/Europe/Berlin", "is not known"},
		{"posixrules", "is not known"},
		{"Factory", "is not known"},
		{"zone.tab", "is not known"},
		{"leapseconds", "is not known"},
		{"Europe/\x1b[2J", "is not known"},
		{strings.Repeat("A", 65), "is not known"},
	} {
		zone, err := schedule.Zone(c.name)
		if err == nil {
			t.Errorf("%q is %s", c.name, zone)
		} else if !strings.Contains(err.Error(), c.said) || !strings.Contains(err.Error(), "write ") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: it doesn't say %q: %v", c.name, c.said, err)
		}
	}
}

// A host may have no tz database at all, as the smallest containers. One with nothing in it but this
// test is made here.
func TestZonesAreKnownWhereTheHostHasNone(t *testing.T) {
	const inside = "JOBD_TEST_ALONE"
	if os.Getenv(inside) != "" {
		if files, _ := filepath.Glob("/*"); len(files) != 1 {
			t.Fatalf("there is more than this test: %s", files)
		}
		s := read(t, "daily 02:30")
		if next := s.Next(parse(t, "2026-03-28 12:00 +0100"), load(t, "Europe/Berlin")); next != parse(t, "2026-03-29 03:00 +0200") {
			t.Errorf("planned for %d", next)
		}
		return
	}
	root := t.TempDir()
	cmd := exec.Command("/alone", "-test.run=^"+t.Name()+"$")
	cmd.Env = []string{inside + "=1", "TZ=Asia/Tokyo"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	copyOfThisTest(t, filepath.Join(root, "alone"))
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "fork/exec") {
		t.Skipf("this host lets no test have a root of its own: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

func copyOfThisTest(t *testing.T, to string) {
	t.Helper()
	from := must.Get(os.Open("/proc/self/exe"))(t)
	defer from.Close()
	file := must.Get(os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700))(t)
	must.Get(io.Copy(file, from))(t)
	must.Do(t, file.Close())
}
