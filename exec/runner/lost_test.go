package runner

import (
	"errors"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// What a runner says that nobody can tell is unknown, with what it knows: which process it was, and
// what it has written.
func TestARunnerSaysThatAnOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	p := newProcess(claim{id: wire.ID{Job: 1, Attempt: 1}})
	done := journal.Done{Result: wire.ResultLost, Reason: "its process is gone", Stdout: journal.Output{Kept: []byte("out"), Size: 3}}
	p.exit(journal.Started{Pid: 7}, done)
	p.end(nil, &notices{})
	<-p.Ended()
	got, err := p.Outcome()
	if !errors.Is(err, jobexec.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "its process is gone") {
		t.Errorf("error %v", err)
	}
	if got.Result != "" || string(got.Stdout.Kept) != "out" || p.Started().Pid != 7 {
		t.Errorf("outcome %+v of %+v", got, p.Started())
	}
}
