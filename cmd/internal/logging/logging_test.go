package logging_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	"jobd/store/storetest/must"
)

func open(t *testing.T, config logging.Config) (*logging.Log, *strings.Builder) {
	t.Helper()
	var console strings.Builder
	log := must.Get(logging.Open(config, &console))(t)
	t.Cleanup(func() { _ = log.Close() }) // for the second time, mostly
	return log, &console
}

// end has everything written.
func end(t *testing.T, log *logging.Log) {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

func TestEachSinkHasItsLevel(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.log")
	log, console := open(t, logging.Config{File: path, FileLevel: conf.LevelTrace, ConsoleLevel: slog.LevelWarn})
	log.Log(context.Background(), conf.LevelTrace, "frame", "bytes", 7)
	log.Info("polled")
	log.Warn("lost", "link", "mysql")
	end(t, log)

	if got := console.String(); !strings.HasSuffix(got, "WRN lost link=mysql\n") || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("console %q, want the warning alone, without colours", got)
	}
	file := read(t, path)
	for _, want := range []string{"level=TRACE msg=frame bytes=7", "level=INFO msg=polled", "level=WARN msg=lost link=mysql"} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q in the file:\n%s", want, file)
		}
	}
}

func TestLevelsChangeAtRunTime(t *testing.T) {
	t.Parallel()
	log, console := open(t, logging.Config{ConsoleLevel: slog.LevelError})
	log.Warn("before")
	log.SetLevels(logging.Config{ConsoleLevel: conf.LevelTrace})
	log.Log(context.Background(), conf.LevelTrace, "after")
	end(t, log)
	if got := console.String(); strings.Contains(got, "before") || !strings.HasSuffix(got, "TRC after\n") {
		t.Errorf("console %q, want only what came after, as TRC", got)
	}
}

func TestReopenFollowsAMovedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.log")
	log, _ := open(t, logging.Config{File: path})
	log.Info("one")
	log.Flush()
	must.Do(t, os.Rename(path, path+".1"))
	must.Do(t, log.Reopen())
	log.Info("two")
	end(t, log)
	if old, now := read(t, path+".1"), read(t, path); !strings.Contains(old, "one") || strings.Contains(now, "one") || !strings.Contains(now, "two") {
		t.Errorf("moved file %q, new file %q", old, now)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("new file: %v, %v; want mode 0600", info.Mode(), err)
	}
}

func TestAFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	_, err := logging.Open(logging.Config{File: "/dev/null/jobd.log"}, t.Output())
	if err == nil || !strings.Contains(err.Error(), "log_file: open /dev/null/jobd.log") {
		t.Errorf("error %v, want one that names log_file and the path", err)
	}
}

// A pipe that nobody reads would keep the daemon from starting.
func TestALogFileThatIsNoFile(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, "/dev/zero"} {
		if _, err := logging.Open(logging.Config{File: path}, t.Output()); err == nil || !strings.Contains(err.Error(), "log_file: "+path+": it is no regular file") {
			t.Errorf("%s: %v, want that it is no regular file", path, err)
		}
	}
	log, _ := open(t, logging.Config{File: "/dev/null"})
	end(t, log)
}

func TestWarningsOfAConfiguration(t *testing.T) {
	t.Parallel()
	log, console := open(t, logging.Config{ConsoleLevel: slog.LevelWarn})
	log.Warnings([]string{"a.conf:1: unknown key x", "b"})
	end(t, log)
	if got := console.String(); strings.Count(got, "WRN configuration: ") != 2 || !strings.Contains(got, "a.conf:1: unknown key x") {
		t.Errorf("console %q", got)
	}
}
