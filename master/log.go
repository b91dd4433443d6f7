package master

import (
	"fmt"
	"log/slog"
	"strings"
)

// How much of what peers send the log shows: so many names of a list, and so many bytes of a text.
const (
	namesShown = 5
	textShown  = 100
)

// listed is a list of names as the log shows it: how many there are, and the first.
func listed(names []string) slog.Value {
	shown := make([]string, min(len(names), namesShown))
	for i := range shown {
		shown[i] = cut(names[i])
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return slog.StringValue(text)
}

// cut is a peer's text in a length that fits into a line.
func cut(text string) string {
	if len(text) <= textShown {
		return text
	}
	return strings.ToValidUTF8(text[:textShown], "") + "…"
}
