// Package logging sets up a daemon's log: the console and a file, each with a
// level of its own that can be changed while the daemon runs.
//
// A daemon's log never blocks the daemon: see [Open]. It counts the records that it could not write,
// and says in their place how many are missing.
package logging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
	"gopkg.in/natefinch/lumberjack.v2"

	"jobd/cmd/internal/conf"
)

// maxFileSize is how far the file grows before it is rotated, in MiB.
const maxFileSize = 50

// Config is where to log to, and from which level on.
type Config struct {
	File         string // "": no file
	FileLevel    slog.Level
	ConsoleLevel slog.Level
	Format       string // of both: formatText or formatJSON; "": text
	Keep         int    // rotated files that stay; 0: all
}

// The formats of a log: lines for people, or an object of JSON a line.
const (
	formatText = "text"
	formatJSON = "json"
)

// mostKept is the most rotated files that one can ask for.
const mostKept = 10_000

// Register registers the keys.
func (c *Config) Register(set *conf.Set) {
	const levels = ": `trace`, `debug`, `info`, `warn` or `error`"
	set.Group("Log")
	set.Add("log_file", "", "also log to this file; rotated at 50 MiB", conf.Text(&c.File))
	set.Add("log_level_file", "warn", "what goes to the file"+levels, conf.Level(&c.FileLevel)).Live()
	set.Add("log_level_console", "warn", "what goes to stderr"+levels, conf.Level(&c.ConsoleLevel)).Live()
	set.Add("log_format", formatText, "`text`, or `json`: an object a line ([messages](operations.md#what-the-log-tells))", conf.OneOf(&c.Format, formatText, formatJSON))
	set.Add("log_keep", "10", "how many rotated files stay, up to 10,000", conf.Int(&c.Keep, 1, mostKept))
}

// Log is a logger with its sinks.
type Log struct {
	*slog.Logger

	console slog.LevelVar
	file    slog.LevelVar
	json    bool
	sink    *lumberjack.Logger // nil where there is no file
	queues  []*queue           // of the console and the file; none: they are written to at once
}

// New opens the log: the console, which is stderr and coloured on a terminal only. It is for a
// program that ends soon.
func New(config Config, stderr io.Writer) (*Log, error) {
	log := &Log{}
	log.SetLevels(config)
	log.Logger = slog.New(log.consoleHandler(stderr, stderr))
	return log, nil
}

// Open opens a daemon's log: the console and the file. The error is about the file. Logging never
// blocks: a record that the console or the file does not accept in time is dropped. Close waits a
// moment for the records under way. A daemon that crashes loses the last ones, as it would where the
// file system does.
func Open(config Config, stderr io.Writer) (*Log, error) {
	log := &Log{json: config.Format == formatJSON}
	log.SetLevels(config)
	console := newQueue(stderr, noteWith(func(w io.Writer) slog.Handler { return log.consoleHandler(w, stderr) }), nil)
	log.queues = append(log.queues, console)
	handlers := []slog.Handler{log.consoleHandler(console, stderr)}
	if config.File != "" {
		if err := tryFile(config.File); err != nil {
			return nil, errors.Join(fmt.Errorf("log_file: %w", err), log.Close())
		}
		log.sink = &lumberjack.Logger{Filename: config.File, MaxSize: maxFileSize, MaxBackups: config.Keep}
		alone := slog.New(handlers[0])
		file := newQueue(log.sink, noteWith(log.fileHandler), func(err error) {
			alone.Error("log_file can't be written; its records are dropped until it can", "error", err)
		})
		log.queues = append(log.queues, file)
		handlers = append(handlers, log.fileHandler(file))
	}
	log.Logger = slog.New(slog.NewMultiHandler(handlers...))
	return log, nil
}

// consoleHandler writes for people to w, which leads to stderr.
func (l *Log) consoleHandler(w, stderr io.Writer) slog.Handler {
	if l.json {
		return jsonHandler(w, &l.console)
	}
	return tint.NewTextHandler(w, &tint.Options{
		Level:       &l.console,
		NoColor:     !isTerminal(stderr),
		TimeFormat:  "2006-01-02 15:04:05.000",
		ReplaceAttr: nameTrace("TRC"),
	})
}

func (l *Log) fileHandler(w io.Writer) slog.Handler {
	if l.json {
		return jsonHandler(w, &l.file)
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: &l.file, ReplaceAttr: nameTrace("TRACE")})
}

// noteWith makes records about lost records, as a handler writes them.
func noteWith(handler func(io.Writer) slog.Handler) func(lost int, why error) []byte {
	return func(lost int, why error) []byte {
		var text bytes.Buffer
		note := slog.NewRecord(time.Now(), slog.LevelError, "records of the log are missing here", 0)
		note.AddAttrs(slog.Int("records", lost), slog.Any("error", why))
		_ = handler(&text).Handle(context.Background(), note) // a buffer takes everything
		return text.Bytes()
	}
}

// SetLevels takes over the levels of config, and nothing else of it.
func (l *Log) SetLevels(config Config) {
	l.console.Set(config.ConsoleLevel)
	l.file.Set(config.FileLevel)
}

// Flush waits, for a second at most, until all records so far are written, and tells whether they
// are. It comes before the program becomes another one, which loses what waits.
func (l *Log) Flush() bool {
	done := true
	for _, q := range l.queues {
		done = q.do(func() {}) && done
	}
	return done
}

// Reopen lets go of the file, which may have been moved away: the next record goes to
// a file of the configured name.
func (l *Log) Reopen() error {
	if l.sink == nil {
		return nil
	}
	return l.release(l.queues[1].do)
}

// Close writes the records that wait, for a second at most, and closes the file. Later records are
// dropped.
func (l *Log) Close() error {
	var errs []error
	for i, q := range l.queues {
		if i == 0 {
			q.close(func() {}) // there is nobody left to be told
			continue
		}
		errs = append(errs, l.release(q.close))
	}
	return errors.Join(errs...)
}

// release closes the file between two records.
func (l *Log) release(between func(func()) bool) error {
	closed := make(chan error, 1)
	if !between(func() { closed <- l.sink.Close() }) {
		return fmt.Errorf("log_file %s: nothing could be written to it for %v", l.sink.Filename, patience)
	}
	return <-closed
}

// Warnings logs the warnings of a configuration.
func (l *Log) Warnings(warnings []string) {
	for _, warning := range warnings {
		l.LogAttrs(context.Background(), slog.LevelWarn, "configuration: "+warning)
	}
}

// tryFile finds out at the start what slog would keep to itself.
func tryFile(path string) error {
	if err := Kind(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// errKind is about a path that is no regular file: writing to one may block for ever.
var errKind = errors.New("it is not a regular file; allowed: a regular file, a new path, or /dev/null")

// Kind tells whether what is at the path, if anything is, may be a log file.
func Kind(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() { // else opening it tells
		return nil
	}
	for _, device := range []string{os.DevNull, "/dev/full"} { // they always answer at once
		if known, err := os.Stat(device); err == nil && os.SameFile(info, known) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", path, errKind)
}

// nameTrace gives conf.LevelTrace its name, where slog says DEBUG-4.
func nameTrace(name string) func([]string, slog.Attr) slog.Attr {
	return func(groups []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.LevelKey && len(groups) == 0 && attr.Value.Any() == conf.LevelTrace {
			attr.Value = slog.StringValue(name)
		}
		return attr
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}
