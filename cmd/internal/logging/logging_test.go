package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	"jobd/store/storetest/check"
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
	check.Do(t, log.Close())
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
		check.Contains(t, file, want, "no … in the file")
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
		if _, err := logging.Open(logging.Config{File: path}, t.Output()); err == nil || !strings.Contains(err.Error(), "log_file: "+path+": it is not a regular file") {
			t.Errorf("%s: %v, want that it is not a regular file", path, err)
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

// Console and file both have an object a line, whatever is in the values.
func TestJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.log")
	log, console := open(t, logging.Config{File: path, FileLevel: conf.LevelTrace, ConsoleLevel: slog.LevelWarn, Format: "json"})
	log.Log(context.Background(), conf.LevelTrace, "frame")
	log.Warn("job failed", "target", "a\nb\x1b[31m\" level=ERROR", "elapsed", 1500*time.Millisecond, "error", errors.New("two\nlines"), "stderr", "\xff")
	end(t, log)
	for where, text := range map[string]string{"console": console.String(), "file": read(t, path)} {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		var last map[string]any
		for _, line := range lines {
			last = nil
			check.Do(t, json.Unmarshal([]byte(line), &last), "%s: %q", where, line)
		}
		want := map[string]any{"level": "WARN", "msg": "job failed", "target": "a\nb\x1b[31m\" level=ERROR", "elapsed": 1.5, "error": "two\nlines", "stderr": "\ufffd"}
		for key, value := range want {
			check.Equal(t, last[key], value, "%s: %s is", where, key)
		}
		check.Equal(t, len(lines), map[string]int{"console": 1, "file": 2}[where], "%s: … lines: %s", where, text)
	}
	check.Contains(t, read(t, path), `"level":"TRACE"`, "the level trace has no name in the file")
}

// Text is a line a record, too: what others have written is quoted.
func TestNobodyWritesRecordsOfTheirOwn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.log")
	log, console := open(t, logging.Config{File: path})
	log.Warn("job failed", "target", "a\n2026-01-01 00:00:00.000 ERR all is lost", "stderr", "x\x1b[2J\rERR")
	end(t, log)
	for where, text := range map[string]string{"console": console.String(), "file": read(t, path)} {
		if strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\r") {
			t.Errorf("%s: %q, want one line without control characters", where, text)
		}
	}
}

// What is missing is told in JSON, too.
func TestGapsInJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.log")
	must.Do(t, os.Symlink("/dev/full", path))
	var console locked
	log := must.Get(logging.Open(logging.Config{File: path, Format: "json"}, &console))(t)
	log.Info("one")
	log.Flush()
	must.Do(t, errors.Join(os.Remove(path), log.Reopen()))
	log.Info("two")
	end(t, log)
	for _, text := range []string{console.String(), read(t, path)} {
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q is no JSON", line)
			}
		}
	}
	check.Contains(t, read(t, path), `"records":1`, "file: … want a note of one lost record")
}

// Of rotated files the oldest go.
func TestRotatedFilesAreKeptToANumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "jobd.log")
	for day := range 5 {
		old := filepath.Join(dir, fmt.Sprintf("jobd-2026-01-%02dT00-00-00.000.log", day+1))
		must.Do(t, os.WriteFile(old, []byte("old"), 0o600))
	}
	log, _ := open(t, logging.Config{File: path, Keep: 2})
	log.Info("one")
	end(t, log)
	rotated := func() (left []string) {
		left = must.Get(filepath.Glob(filepath.Join(dir, "jobd-*")))(t)
		return left
	}
	for ctx := t.Context(); ctx.Err() == nil && len(rotated()) > 2; { // they are removed beside the log
		runtime.Gosched()
	}
	if left := rotated(); len(left) != 2 || !strings.HasSuffix(left[0], "04T00-00-00.000.log") {
		t.Errorf("rotated files: %v, want the newest two", left)
	}
}

// A pipe that nobody reads takes 64 KiB: a worker that logs more goes on, and where the reader goes
// on too it is told how much is missing, in the place where it is.
func TestAReaderThatHangsBlocksNobody(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	log := must.Get(logging.Open(logging.Config{}, writer))(t)
	const records = 5000
	filler := strings.Repeat("x", 1000)
	for i := range records {
		log.Info("record", "number", i, "filler", filler)
	}

	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader)
		read <- string(text)
	}()
	// What waits is written first, then the note, and what comes after it stands behind it.
	if !log.Flush() {
		t.Fatal("what waits was not written")
	}
	log.Info("the last one")
	end(t, log)
	writer.Close()
	text := <-read
	var missing int
	_, note, found := strings.Cut(text, "records of the log are missing here records=")
	if _, err := fmt.Sscan(note, &missing); !found || err != nil {
		t.Fatalf("no note of what is missing: %v", err)
	}
	if written := strings.Count(text, " INF record number="); written+missing < records {
		t.Errorf("%d records were written and %d are said to be missing, of %d", written, missing, records)
	}
	check.Contains(t, note, "the last one", "what came after the gap is not behind the note")
}

// A log that nobody reads any more does not keep its program from ending.
func TestTheEndDoesNotWaitForAReader(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	log := must.Get(logging.Open(logging.Config{}, writer))(t)
	for range 200 {
		log.Info(strings.Repeat("x", 1000))
	}
	end(t, log)
	if n, err := logging.Patient(writer).Write([]byte("last words")); err == nil || n != 0 {
		t.Errorf("wrote %d bytes into a full pipe, error %v", n, err)
	}
}

// A log file on a full disk is told on the console, once, and in the file when there is room again.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "jobd.log")
	must.Do(t, os.Symlink("/dev/full", path))
	var console locked
	log := must.Get(logging.Open(logging.Config{File: path}, &console))(t)
	log.Info("one")
	log.Info("two")
	log.Flush()
	must.Do(t, os.Remove(path))
	must.Do(t, log.Reopen())
	log.Info("three")
	end(t, log)
	if got := console.String(); strings.Count(got, "log_file can't be written") != 1 || !strings.Contains(got, unix.ENOSPC.Error()) {
		t.Errorf("console:\n%s\nwant once that the disk is full", got)
	}
	file := read(t, path)
	note := strings.Index(file, `msg="records of the log are missing here" records=2 error="write`)
	if three := strings.Index(file, "msg=three"); note < 0 || three < note {
		t.Errorf("file:\n%s\nwant a note of two lost records before the third", file)
	}
}

// locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
