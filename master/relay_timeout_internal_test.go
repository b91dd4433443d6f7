package master

import (
	"slices"
	"testing"
	"time"

	"jobd/net/contract"
)

// Who only looks at something waits 10 s for the master's answer. Within them a worker that hangs is
// given up, and what the others said is handed over.
func TestAWorkerThatHangsHidesNoAnswerOfTheOthers(t *testing.T) {
	const patience = 10 * time.Second // jobctl's
	changing := []string{contract.Cancel.Name, contract.Retry.Name, contract.JournalReapply}
	for _, typ := range slices.Concat(contract.OperatorRequests[:], contract.JournalRequests[:]) {
		if limit := timeoutOf(typ); limit >= patience-time.Second && !slices.Contains(changing, typ) {
			t.Errorf("%s: a worker may take %v", typ, limit)
		}
	}
}
