package gearman

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A launcher runs the jobs of a function without Gearman workers: the workload is its stdin, its output the result.
// A row that the application has inserted has none. No file stays, not even one that a killed start has left.
func TestALauncherReadsTheWorkload(t *testing.T) {
	t.Parallel()
	settings, addr, table := site(t)
	files := filepath.Join(settings["journal_dir"], "gearman.workloads")
	must.Do(t, os.MkdirAll(files, 0o700))
	left := filepath.Join(files, "7.1")
	must.Do(t, os.WriteFile(left, []byte("left"), 0o600))
	must.Do(t, os.Chtimes(left, time.Now(), time.Now().Add(-time.Hour)))
	settings = settings.With(harness.Targets(map[string]int{"upper": 2, "refused": 1}), harness.Settings{
		"[target upper] launcher": "tr a-z A-Z", "[target refused] launcher": harness.Script(t, "cat >&2; exit 3"), "max_output_buffer": "2MiB",
	})
	worker := settings.StartWorker(t)
	awaitListener(t, addr)
	client := dial(t, addr)
	for name, workload := range map[string]string{
		"short": "a word", "empty": "", "with a NUL": "a\x00b'; \"$0\"\n", "long": strings.Repeat("abcdefg\n", 1<<17),
	} {
		client.asked(t, 8, 7, "upper", "", workload) // JOB_CREATED to SUBMIT_JOB
		result := must.Get(client.ended(13))(t)
		if want := strings.ToUpper(workload); result.arguments[1] != want {
			t.Errorf("%s: %d bytes, not %d: %.100q", name, len(result.arguments[1]), len(want), result.arguments[1])
		}
	}
	client.asked(t, 8, 7, "refused", "", "why")
	must.Get(client.ended(14))(t) // WORK_FAIL
	db := must.Get(sql.Open("sqlite", "file:"+table+"?_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), "INSERT INTO jobs (id, target, time_created, status) VALUES (1000, 'upper', 1, 'waiting')"))(t)
	harness.Dial(t, worker.Addr).Ask(t, "poll", map[string]any{"targets": []string{"upper"}})
	harness.Until(t, func() string {
		var status, result, stdout string
		must.Do(t, db.QueryRowContext(t.Context(), "SELECT status, COALESCE(result, ''), COALESCE(stdout, '') FROM jobs WHERE id = 1000").Scan(&status, &result, &stdout))
		if status != "done" || result != "ok" || stdout != "" {
			return strings.Join([]string{status, result, stdout}, " ")
		}
		return ""
	})
	if there := must.Get(os.ReadDir(files))(t); len(there) > 0 {
		t.Errorf("files stay: %v", there)
	}
}
