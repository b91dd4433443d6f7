package conf_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

// A configuration that is no regular file is refused, and not read: some never end, and of a pipe
// even the opening may not.
func TestConfigurationsThatAreNoFiles(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(pipe, link))
	for _, path := range []string{pipe, link, "/dev/urandom", "/dev/zero"} {
		for name, err := range map[string]error{
			"flag":     readFrom([]string{"--config", path}, nil, ""),
			"variable": readFrom(nil, []string{"TESTD_CONFIG=" + path}, ""),
			"default":  readFrom(nil, nil, path),
		} {
			if err == nil || exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "config "+path+": it is no regular file") {
				t.Errorf("%s, %s: %v", path, name, err)
			}
		}
	}
	file := writeFile(t, "port = 7\n")
	link = filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(file, link))
	for _, path := range []string{link, os.DevNull} {
		if err := readFrom([]string{"--config", path}, nil, ""); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func readFrom(args, environ []string, file string) error {
	set, _ := newSet(file)
	if err := set.Parse(args, environ, io.Discard); err != nil {
		return err
	}
	return set.Err()
}

// Of very many warnings and mistakes the first are told, and how many more there are.
func TestManyWarningsAndMistakes(t *testing.T) {
	t.Parallel()
	var odd, wrong strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&odd, "unknown_%d = 1\n", i)
		fmt.Fprintf(&wrong, "targets.t%d = x\n", i)
	}
	set, _ := newSet(writeFile(t, odd.String()))
	must.Do(t, set.Parse(nil, nil, io.Discard))
	if told := set.Warnings(); len(told) != 51 || !strings.Contains(told[50], "950 more warnings") {
		t.Errorf("%d warnings are told, the last one: %s", len(told), told[len(told)-1])
	}
	err := readFrom(nil, nil, writeFile(t, "[targets]\n"+strings.ReplaceAll(wrong.String(), "targets.", "")))
	if text := fmt.Sprint(err); strings.Count(text, "\n") != 50 || !strings.Contains(text, "950 more mistakes") {
		t.Errorf("error of %d lines: %.200s", strings.Count(text, "\n")+1, text)
	}
}
