package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/journal/archive"
	"jobd/store/storetest/must"
)

func lookup(environ map[string]string) func(string) string {
	return func(name string) string { return environ[name] }
}

func TestJournalCandidates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		worker  string
		config  journalConfig
		environ map[string]string
		want    []string
	}{
		"configured": {
			"w", journalConfig{Journal: jobdaemon.Journal{Dir: "/j"}}, map[string]string{"STATE_DIRECTORY": "/s", "HOME": "/h"}, []string{"/j"},
		},
		"systemd": {
			"w", journalConfig{}, map[string]string{"STATE_DIRECTORY": "/s:/t", "HOME": "/h"}, []string{"/s"},
		},
		"home": {
			"w", journalConfig{}, map[string]string{"HOME": "/h"}, []string{"/var/lib/jobd/w", "/h/.local/state/jobd/w"},
		},
		"state home": {
			"w", journalConfig{}, map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/x"}, []string{"/var/lib/jobd/w", "/x/jobd/w"},
		},
		"no home":                  {"w", journalConfig{}, nil, []string{"/var/lib/jobd/w"}},
		"a name that leads away":   {"../../etc", journalConfig{}, nil, []string{"/var/lib/jobd/.._.._etc"}},
		"a name that leads upward": {"..", journalConfig{}, nil, []string{"/var/lib/jobd/__"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.config.candidates(test.worker, lookup(test.environ))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJournalDirIsMadePrivate(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	must.Do(t, os.Mkdir(open, 0o755))
	for name, dir := range map[string]string{
		"new, with its parents": filepath.Join(t.TempDir(), "a", "b", "c"),
		"open to others":        open,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := journalConfig{Journal: jobdaemon.Journal{Dir: dir}}
			got, err := c.makeDir("w", lookup(nil))
			if err != nil || got != dir {
				t.Fatalf("got %q, %v, want %q", got, err, dir)
			}
			info := must.Get(os.Stat(dir))(t)
			if info.Mode() != fs.ModeDir|0o700 {
				t.Errorf("mode %v, want a folder with 0700", info.Mode())
			}
		})
	}
}

// The folders here are all below t.TempDir: the tests may run as root, which
// could change a folder anywhere else.
func TestJournalDirThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, test := range map[string]struct{ dir, want string }{
		"a file":        {file, file + ": not a folder"},
		"below a file":  {filepath.Join(file, "x"), file + ": not a directory"},
		"name too long": {filepath.Join(t.TempDir(), strings.Repeat("n", 300)), "file name too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := journalConfig{Journal: jobdaemon.Journal{Dir: test.dir}}
			_, err := c.makeDir("w", lookup(nil))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "give one with the key journal_dir") {
				t.Errorf("error %v, want %q and the key", err, test.want)
			}
		})
	}
}

func TestJournalDirFallsBack(t *testing.T) {
	t.Parallel()
	file, second, third := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "third")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	if got, err := firstPrivate([]string{file, second, third}); err != nil || got != second {
		t.Errorf("got %q, %v, want %q", got, err, second)
	}
	if _, err := os.Stat(third); err == nil {
		t.Errorf("%s was made without need", third)
	}
	below := filepath.Join(file, "below")
	if _, err := firstPrivate([]string{file, below}); err == nil || !strings.Contains(err.Error(), file+": not a folder") || !strings.Contains(err.Error(), below+": ") {
		t.Errorf("error %v, want one that names both folders", err)
	}
}

// Whoever owns the journal's folder could have a worker of root write anywhere, by links.
func TestJournalDirOfAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another account")
	}
	dir := filepath.Join(t.TempDir(), "journal")
	must.Do(t, errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 12345, -1)))
	c := journalConfig{Journal: jobdaemon.Journal{Dir: dir}}
	if _, err := c.makeDir("w", lookup(nil)); err == nil || !strings.Contains(err.Error(), "belongs to the account 12345") {
		t.Errorf("error %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode was changed: %v, %v", info, err)
	}
}

// A connection of the same place is ended as one of a dead process: another folder is another place, be it
// a copy of the journal, and where there is no lock nobody knows.
func TestPlacesAreOfOneFolder(t *testing.T) {
	t.Parallel()
	one, copied, none := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{one, copied} {
		must.Do(t, os.WriteFile(filepath.Join(dir, archive.LockFile), nil, 0o600))
	}
	place := placeOf(one)
	if place == "" || placeOf(one) != place {
		t.Errorf("the place is %q, and %q a moment later", place, placeOf(one))
	}
	if placeOf(copied) == place {
		t.Errorf("a copy of the journal has the same place: %s", place)
	}
	if got := placeOf(none); got != "" {
		t.Errorf("without a lock the place is %q", got)
	}
}
