package journal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// askedBy is who asked for what an event tells of; "" where nobody did, or it is not about that.
func askedBy(payload Payload) string {
	switch p := payload.(type) {
	case Signal:
		return p.By
	case Requeued:
		return p.By
	case Cancelled:
		return p.By
	case Ignored:
		return p.By
	case Retried:
		return p.By
	case Planned:
		return p.By
	case Paused:
		return p.By
	case Continued:
		return p.By
	case TargetAdded:
		return p.By
	case TargetRemoved:
		return p.By
	case ConcurrencySet:
		return p.By
	case Requested:
		return p.By
	case Refused:
		return p.By
	case Reloaded:
		return p.By
	case Reapplied:
		return p.By
	}
	return ""
}

// isBy tells whether somebody is meant by a text: an address, a host, or words of it. 10.0.0.5 means
// 10.0.0.5:4711, and not 10.0.0.50.
func isBy(somebody, text string) bool {
	for rest := somebody; ; {
		at := strings.Index(rest, text)
		if at < 0 || text == "" {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(rest[:at])
		after, _ := utf8.DecodeRuneInString(rest[at+len(text):])
		if (at == 0 || !goesOn(before)) && (at+len(text) == len(rest) || !goesOn(after) || strings.HasSuffix(text, ".")) {
			return true
		}
		rest = rest[at+1:]
	}
}

// goesOn tells whether a character makes a name or an address longer.
func goesOn(r rune) bool { return r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) }
