package master

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	jobnet "jobd/net"
)

// namesShown is how many names of a list the log shows.
const namesShown = 5

// How many lines peers may write to the log: so many at once, and then one every so often.
const (
	linesAtOnce = 1000
	lineEvery   = 100 * time.Millisecond
)

// listed is a list of names as the log shows it: how many there are, and the first.
func listed(names []string) slog.Value {
	shown := make([]string, min(len(names), namesShown))
	for i := range shown {
		shown[i] = jobnet.Excerpt(names[i])
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return slog.StringValue(text)
}
