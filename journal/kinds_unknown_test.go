package journal_test

import (
	"strings"
	"testing"

	"jobd/journal"
)

// A journal of a newer version may have kinds that this one does not know: whoever is told that it
// can't be read learns that nothing may be broken.
func TestAKindOfANewerVersion(t *testing.T) {
	t.Parallel()
	if _, err := journal.DecodePayload("promoted", []byte("{}"), nil, nil); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("got %v", err)
	}
}
