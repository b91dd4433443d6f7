package journal

import (
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Filter selects events. The zero value selects all.
type Filter struct {
	After  uint64                   // only events behind this sequence number; where the next is not kept, a *RemovedError
	Job    int64                    // only events of this job
	Kinds  []Kind                   // only events of these kinds
	Target string                   // only events of this target's jobs, and about the target
	Has    func(target string) bool // only events of such targets' jobs, and about such targets alone; nil: of all
	Since  time.Time                // only events at or after this time
	Until  time.Time                // only events before this time
	Result string                   // only events with result ok or fail
	By     string                   // only what somebody asked for whose address or name has this in it
	Last   int                      // only the newest n of these
	Output bool                     // with the jobs' stdout and stderr
}

// Says tells whether a payload says what the filter asks of Result and By.
func (f Filter) Says(payload Payload) bool {
	if f.Result != "" {
		if done, ended := payload.(Done); !ended || done.Result != f.Result {
			return false
		}
	}
	if f.By == "" {
		return true
	}
	by := reflect.ValueOf(payload).FieldByName("By") // who asked for what the event tells of
	return by.IsValid() && isBy(by.String(), f.By)
}

// KindsAskedFor are the kinds of event that tell who asked for something.
func KindsAskedFor() (kinds []Kind) {
	for _, payload := range registry {
		if _, has := reflect.TypeOf(payload).FieldByName("By"); has {
			kinds = append(kinds, payload.Kind())
		}
	}
	return kinds
}

// isBy tells whether somebody is meant by a text: an address, a host, a name, or words of it. 10.0.0.5
// means 10.0.0.5:4711, and not 10.0.0.50; ann means "ann (token, 10.0.0.5:4711)", and not ann-2.
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
func goesOn(r rune) bool {
	return r == '.' || r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
