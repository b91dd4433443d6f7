package live

import (
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
)

// unknown stands where nobody tells.
const unknown = "?"

// fit cuts a line to a width, or fills it up; what is cut ends with an ellipsis.
func fit(text string, width int) string {
	text = screen.Clean(text)
	if width <= 0 {
		return ""
	}
	text = screen.Cut(text, width)
	return text + strings.Repeat(" ", width-screen.Width(text))
}

// fitRight is fit for numbers: what fills it up stands before them.
func fitRight(text string, width int) string {
	text = screen.Clean(text)
	if have := screen.Width(text); have < width {
		return strings.Repeat(" ", width-have) + text
	}
	return fit(text, width)
}

// wide is how many columns a text takes when it is shown.
func wide(text string) int { return screen.Width(screen.Clean(text)) }

// bar shows how many of some slots are in use.
func bar(used, all, width int) string {
	full := 0
	if all > 0 {
		full = min(width, (used*width+all-1)/all)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// clock is the time of day where the person is; with the date where that is another one.
func (m *model) clock(t time.Time) string {
	return operator.Clock{Now: m.now, Location: m.config.Location, Brief: true}.Moment(t)
}
