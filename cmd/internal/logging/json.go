package logging

import (
	"io"
	"log/slog"
)

// jsonHandler writes an object a line. Lengths of time are seconds, where slog says nanoseconds.
func jsonHandler(w io.Writer, level slog.Leveler) slog.Handler {
	named := nameTrace("TRACE")
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
		if attr.Value.Kind() == slog.KindDuration {
			attr.Value = slog.Float64Value(attr.Value.Duration().Seconds())
		}
		return named(groups, attr)
	}})
}
