package guide

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// How many rows there are of each kind. The worker works all the while in which rows are deleted.
const (
	pruned  = 5000 // that are to go
	working = 1000 // jobs of the worker
)

// The script of docs/prune.md deletes what is old, and nothing else, beside a worker under load and
// an application that inserts: nobody deadlocks, no job is lost or run twice, nothing is set aside.
func TestPruneBesideAWorker(t *testing.T) {
	t.Parallel()
	// A server of its own: it counts the deadlocks of all.
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		check.Do(t, server.Close())
	})
	db := harness.NewDatabaseOn(t, server)
	for _, block := range blocks(t, "prune.md", "sql")[:2] { // the index, the account
		for _, statement := range statements(db, block) {
			db.Exec(t, statement)
		}
	}
	kept := insertOld(t, db)
	before := deadlocks(t, db)

	oracle := filepath.Join(t.TempDir(), "oracle")
	launcher := harness.Script(t, "echo $1 >> "+oracle)
	worker := db.Worker(t, "prune", launcher+" {id}", map[string]int{"work": 8}).StartWorker(t)
	wire := harness.Dial(t, worker.Addr)
	insertWork(t, db, 1) // when it is done, the worker's start is over, and what it says of that
	wire.Ask(t, "poll", map[string]any{"targets": []string{"work"}})
	db.AwaitCount(t, 1, "target = 'work' AND status = 'done'")
	started := worker.Output()
	insertWork(t, db, working/2-1)
	wire.Ask(t, "poll", map[string]any{"targets": []string{"work"}})
	scripts := make(chan error, 2) // two at once, as where a slow one meets the next day's
	for range cap(scripts) {
		script := pruning(t, db)
		go func() { scripts <- run(script) }()
	}
	insertWork(t, db, working/2)
	wire.Ask(t, "poll", map[string]any{"targets": []string{"work"}})
	for range cap(scripts) {
		check.Do(t, <-scripts)
	}
	db.AwaitCount(t, working, "target = 'work' AND status = 'done' AND result = 'ok'")

	if n := deadlocks(t, db) - before; n != 0 {
		t.Errorf("there were %d deadlocks, the last one: %s", n, lastDeadlock(t, db))
	}
	check.Equal(t, db.Count(t, "target = 'old'"), 0, "of %d old rows are left", pruned)
	check.Equal(t, db.Count(t, "target = 'kept'"), kept, "rows are left of … that are to stay")
	check.Equal(t, strings.TrimPrefix(worker.Output(), started), "", "the worker says")
	eachOnce(t, db, oracle)
}

// insertOld inserts rows that are to be deleted, and a row of each kind that is to stay. It tells
// how many those are.
func insertOld(t *testing.T, db *harness.Database) (kept int) {
	t.Helper()
	const old, young = "UNIX_TIMESTAMP() - 31 * 86400", "UNIX_TIMESTAMP() - 29 * 86400"
	db.Exec(t, fmt.Sprintf("INSERT INTO jobs (target, time_created, time_finished, status, result, stdout) "+
		"SELECT 'old', %s, IF(n %% 10 = 0, 0, %s), IF(n %% 10 = 0, 'ignored', 'done'), 'ok', REPEAT('x', 1000) FROM %s", old, old, harness.Numbers(pruned)))
	must.Equal(t, db.Count(t, "target = 'old'"), pruned, "rows are there that are to go")
	for _, row := range []string{
		"'waiting', " + old + ", " + old, "'manual', " + old + ", 0", "'accepted', " + old + ", " + old,
		"'running', " + old + ", 0", "'done', " + old + ", " + young, "'done', " + old + ", 0",
		"'ignored', " + young + ", 0",
	} {
		db.Exec(t, "INSERT INTO jobs (target, status, time_created, time_finished) VALUES ('kept', "+row+")")
		kept++
	}
	return kept
}

// insertWork inserts jobs one by one, as an application does.
func insertWork(t *testing.T, db *harness.Database, n int) {
	t.Helper()
	for range n {
		db.Exec(t, "INSERT INTO jobs (target, time_created) VALUES ('work', UNIX_TIMESTAMP())")
	}
}

// pruning is the script of the page, by the account of the page.
func pruning(t *testing.T, db *harness.Database) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(db.Addr)
	if err != nil {
		t.Fatal(err)
	}
	access := fmt.Sprintf("[client]\nprotocol = tcp\nhost = %s\nport = %s\nuser = prune_%s\npassword = secret\n", host, port, db.Name)
	must.Do(t, os.WriteFile(filepath.Join(dir, ".my.cnf"), []byte(access), 0o600))
	script := exec.Command("sh", "-c", blocks(t, "prune.md", "sh")[0], "prune", db.Name, "30")
	script.Env = append(os.Environ(), "HOME="+dir)
	return script
}

// run fails where the script does, and where it says anything.
func run(script *exec.Cmd) error {
	if output, err := script.CombinedOutput(); err != nil || len(output) > 0 {
		return fmt.Errorf("the script: %v, %s", err, output)
	}
	return nil
}

// deadlocks is how many the server has met since it was started.
func deadlocks(t *testing.T, db *harness.Database) (n int) {
	t.Helper()
	err := db.Admin.QueryRowContext(t.Context(),
		"SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks' AND (time_enabled IS NOT NULL)").Scan(&n)
	if err != nil {
		t.Fatalf("count deadlocks: %v", err)
	}
	return n
}

// lastDeadlock is what the server tells of it.
func lastDeadlock(t *testing.T, db *harness.Database) string {
	t.Helper()
	var kind, name, status string
	must.Do(t, db.Admin.QueryRowContext(t.Context(), "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status))
	_, status, _ = strings.Cut(status, "LATEST DETECTED DEADLOCK")
	status, _, _ = strings.Cut(status, "\nTRANSACTIONS\n")
	return status
}

// eachOnce compares the ids that were run with those of the rows.
func eachOnce(t *testing.T, db *harness.Database, oracle string) {
	t.Helper()
	text := must.Get(os.ReadFile(oracle))(t)
	ran := strings.Fields(string(text))
	slices.Sort(ran)
	if n := len(slices.Compact(slices.Clone(ran))); n != len(ran) || n != working {
		t.Errorf("%d jobs were run, %d of them different; want %d, each once", len(ran), n, working)
	}
	if n := db.Count(t, "target = 'work' AND id IN ("+strings.Join(ran, ", ")+")"); n != working {
		t.Errorf("%d of the rows were run, not %d", n, working)
	}
}

func TestMain(m *testing.M) { harness.Main(m) }

// blocks are the pieces of code of a page that are of one language, in their order.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", page)))(t)
	for i, part := range strings.Split(string(text), "\n```") {
		if code, ok := strings.CutPrefix(part, language+"\n"); ok && i > 0 {
			all = append(all, code+"\n")
		}
	}
	if len(all) == 0 {
		t.Fatalf("docs/%s has no block of %s: this test looks for the wrong thing", page, language)
	}
	return all
}

// statements are those of a block, in the test's own database, and for accounts of its own.
func statements(db *harness.Database, block string) (all []string) {
	block = strings.NewReplacer("application.", db.Name+".", "'@'", "_"+db.Name+"'@'").Replace(block)
	for statement := range strings.SplitSeq(block, ";\n") {
		var code []string
		for line := range strings.Lines(statement) {
			if !strings.HasPrefix(line, "--") {
				code = append(code, line)
			}
		}
		if text := strings.TrimSpace(strings.Join(code, "")); text != "" {
			all = append(all, text)
		}
	}
	return all
}
