package principal

import (
	"log/slog"
)

// How tells how a principal of the line is known.
func (l *Line) How() string { return l.how }

// Ended tells whether the line has ended.
func (l *Line) Ended() bool { return l.ctx.Err() != nil }

// All tells whether these are all targets.
func (t Targets) All() bool { return t.all() }

// Parse makes a keeper of a file's content alone.
func Parse(content []byte) (*Keeper, error) {
	k := &Keeper{path: "a test", log: slog.New(slog.DiscardHandler)}
	return k, k.take(string(content))
}
