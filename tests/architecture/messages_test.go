package architecture

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A message says itself what is wrong and what to do; no page explains it. The collector finds what
// goes out, and this test that each can stand in a log line or behind a colon: it begins small, has
// no full stop, and no blanks that an edit left behind.
func TestMessagesCanStandInALine(t *testing.T) {
	t.Parallel()
	found := messages(must(t, shipped))
	if len(found) < 200 || found["wrong password"] != "net" {
		t.Fatalf("only %d messages are found in the sources: this test looks for the wrong things", len(found))
	}
	for _, message := range slices.Sorted(maps.Keys(found)) {
		if fault := faultOfMessage(message); fault != "" {
			t.Errorf("%s says `%s`: %s", found[message], message, fault)
		}
	}
}

// name is what begins large wherever it stands: JOBD_ID, MySQL, FastCGI, SIGTERM, ALTER TABLE. The
// answers that the original daemons gave are kept as they are.
var name = regexp.MustCompile(`^(\pL*\p{Ll}*\p{Lu}\pL*\p{Lu}|\p{Lu}+\b|Invalid concurrency value\.|Retry-After|Jobd-|Ruby|Python|Go\b)`)

func faultOfMessage(message string) string {
	first := []rune(message)[0]
	switch {
	case strings.Contains(message, "  ") || strings.ContainsAny(message, "\t"):
		return "it has blanks that an edit left behind"
	case name.MatchString(message):
		return ""
	case unicode.IsUpper(first):
		return "it begins with a capital letter, though it may stand behind a colon"
	case strings.HasSuffix(message, ".") && !strings.HasSuffix(message, "..."):
		return "it ends with a full stop, though more may follow it"
	}
	return ""
}
