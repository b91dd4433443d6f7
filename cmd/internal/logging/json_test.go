package logging_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	"jobd/store/storetest/must"
)

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
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Errorf("%s: %q: %v", where, line, err)
			}
		}
		want := map[string]any{"level": "WARN", "msg": "job failed", "target": "a\nb\x1b[31m\" level=ERROR", "elapsed": 1.5, "error": "two\nlines", "stderr": "\ufffd"}
		for key, value := range want {
			if last[key] != value {
				t.Errorf("%s: %s is %q, want %q", where, key, last[key], value)
			}
		}
		if n := map[string]int{"console": 1, "file": 2}[where]; len(lines) != n {
			t.Errorf("%s: %d lines, want %d:\n%s", where, len(lines), n, text)
		}
	}
	if !strings.Contains(read(t, path), `"level":"TRACE"`) {
		t.Error("the level trace has no name in the file")
	}
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
	if got := read(t, path); !strings.Contains(got, `"records":1`) {
		t.Errorf("file:\n%s\nwant a note of one lost record", got)
	}
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
