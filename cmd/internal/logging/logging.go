// Package logging sets up a daemon's log: the console and a file, each with a
// level of its own that can be changed while the daemon runs.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

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
}

// Register registers the keys.
func (c *Config) Register(set *conf.Set) {
	const levels = ": trace, debug, info, warn or error"
	set.Add("log_file", "", "also log to this file, rotated at 50 MiB", conf.Text(&c.File))
	set.Add("log_level_file", "warn", "what goes to the file"+levels, conf.Level(&c.FileLevel))
	set.Add("log_level_console", "warn", "what goes to stderr"+levels, conf.Level(&c.ConsoleLevel))
}

// Log is a logger with its sinks.
type Log struct {
	*slog.Logger

	console slog.LevelVar
	file    slog.LevelVar
	sink    *lumberjack.Logger // nil where there is no file
}

// New opens the log: the console, which is stderr and coloured on a terminal only, and
// the file. The error is about the file.
func New(config Config, stderr io.Writer) (*Log, error) {
	log := &Log{}
	log.SetLevels(config)
	handlers := []slog.Handler{tint.NewTextHandler(stderr, &tint.Options{
		Level:       &log.console,
		NoColor:     !isTerminal(stderr),
		TimeFormat:  "2006-01-02 15:04:05.000",
		ReplaceAttr: nameTrace("TRC"),
	})}
	if config.File != "" {
		if err := tryFile(config.File); err != nil {
			return nil, fmt.Errorf("log_file: %w", err)
		}
		log.sink = &lumberjack.Logger{Filename: config.File, MaxSize: maxFileSize}
		handlers = append(handlers, slog.NewTextHandler(log.sink, &slog.HandlerOptions{
			Level:       &log.file,
			ReplaceAttr: nameTrace("TRACE"),
		}))
	}
	log.Logger = slog.New(slog.NewMultiHandler(handlers...))
	return log, nil
}

// SetLevels takes over the levels of config, and nothing else of it.
func (l *Log) SetLevels(config Config) {
	l.console.Set(config.ConsoleLevel)
	l.file.Set(config.FileLevel)
}

// Reopen lets go of the file, which may have been moved away: the next record goes to
// a file of the configured name.
func (l *Log) Reopen() error { return l.Close() }

// Close closes the file.
func (l *Log) Close() error {
	if l.sink == nil {
		return nil
	}
	return l.sink.Close()
}

// Warnings logs the warnings of a configuration.
func (l *Log) Warnings(warnings []string) {
	for _, warning := range warnings {
		l.LogAttrs(context.Background(), slog.LevelWarn, "configuration: "+warning)
	}
}

// tryFile finds out at the start what slog would keep to itself.
func tryFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
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
