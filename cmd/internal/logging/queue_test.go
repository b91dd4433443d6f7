package logging_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/logging"
	"jobd/store/storetest/must"
)

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
	if !strings.Contains(note, "the last one") {
		t.Error("what came after the gap is not behind the note")
	}
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
