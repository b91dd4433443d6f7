package principal

import "log/slog"

// Parse makes a keeper of a file's content alone.
func Parse(content []byte) (*Keeper, error) {
	k := &Keeper{path: "a test", log: slog.New(slog.DiscardHandler)}
	return k, k.take(string(content))
}
