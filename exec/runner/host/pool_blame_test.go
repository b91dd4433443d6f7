package host

import (
	"strings"
	"testing"
)

// Of a job whose process we had to kill, its row says that, and why: nobody looks for the one who
// sent SIGKILL.
func TestAProcessThatHadToBeKilledIsBlamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	p.Argv[2] = strings.Replace(p.Argv[2], `echo "started $id" >&4`, `echo "exit $id 0" >&4; exec sleep 300`, 1)
	b.pools(p)
	done := b.run(1, "DO=true")
	const why = ` was asked for the job, and had to be killed before it said that it was started: it wrote "exit 1 0" to descriptor 4, where started 1 or refused 1 is expected`
	if !strings.HasPrefix(done.Reason, "process ") || !strings.Contains(done.Reason, why) || strings.Contains(done.Reason, "SIGKILL") {
		t.Errorf("done %+v", done)
	}
}
