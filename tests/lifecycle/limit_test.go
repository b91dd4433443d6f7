package lifecycle

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Pitfall 33: a worker takes all the descriptors that it may have, so that thousands of connections fit, and its jobs
// find the limit that the worker was started with.
func TestPitfall33JobsDoNotInheritTheRaisedLimit(t *testing.T) {
	t.Parallel()
	const soft, hard, connections = 256, 2000, 1000
	db := harness.NewDatabase(t)
	s := db.Worker(t, "worker", harness.Script(t, `ulimit -Sn; ulimit -Hn`)+" {id}", map[string]int{"a": 1})
	limited := harness.Script(t, fmt.Sprintf(`exec prlimit --nofile=%d:%d %s "$@"`, soft, hard, harness.Program(t, "jobd")))
	worker := harness.LaunchBinary(t, limited, s.Write(t), s.Addr()).Ready(t)

	limits := must.Get(os.ReadFile(worker.Proc("limits")))(t)
	_, limit, _ := strings.Cut(string(limits), "Max open files")
	var files int
	if _, err := fmt.Sscan(limit, &files); err != nil || files < hard-1 {
		t.Errorf("the worker may open %d files, and could have %d (%v)", files, hard, err)
	}
	for i := range connections {
		conn, err := net.Dial("tcp", worker.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
	}
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	if row, want := db.AwaitDone(t, 1), fmt.Sprintf("%d\n%d\n", soft, hard); harness.Text(row.Stdout) != want {
		t.Errorf("the job's limits are %q, want %q", harness.Text(row.Stdout), want)
	}
}
