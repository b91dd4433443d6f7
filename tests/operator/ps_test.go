package operator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"jobd/net/api"
	"jobd/tests/harness"
)

// What runs is listed with what it uses; a worker that hangs is named, and hides nothing.
func TestPs(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	spins := harness.Script(t, `while :; do n=0; while [ $n -lt 5000 ]; do n=$((n+1)); done; sleep 0.1; done`)
	holds := harness.Script(t, `sleep 300 & exec sleep 300`)
	one := db.Worker(t, "node-1", spins+" {id}", map[string]int{"a": 1}).With(harness.MasterOf(master)).StartWorker(t)
	db.Worker(t, "node-2", holds+" {id}", map[string]int{"b": 1}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 2)
	if got := jobctl(t, one, "ps"); got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "JOB") || strings.Contains(got.stdout, "\n1 ") {
		t.Errorf("where nothing runs: %+v", got)
	}
	db.Insert(t, 1, "a", "waiting")
	db.Insert(t, 2, "b", "waiting")
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a", "b"}})
	db.AwaitCount(t, 2, "status = 'running'")
	all := func(args ...string) (told struct {
		Jobs []struct {
			api.RunningJob
			Worker string
		}
		Total int
	},
	) {
		got := jobctl(t, master, append([]string{"--master", "ps", "--output=json"}, args...)...)
		if err := json.Unmarshal([]byte(got.stdout), &told); err != nil || got.code != 0 {
			t.Fatalf("%+v: %v", got, err)
		}
		return told
	}
	harness.Until(t, func() string {
		told := all("--sort=cpu")
		if len(told.Jobs) == 2 && told.Jobs[0].CPU != nil && *told.Jobs[0].CPU > 0 && told.Jobs[1].CPU != nil && told.Jobs[1].Processes == 2 {
			return ""
		}
		return fmt.Sprintf("both are not measured: %+v", told)
	})
	told := all("--sort=cpu")
	if a, b := told.Jobs[0], told.Jobs[1]; a.Job != 1 || a.Worker != "node-1" || a.Target != "a" || a.PID == 0 || a.Attempt != 1 ||
		a.Since == 0 || a.Elapsed == nil || *a.Elapsed <= 0 || *a.Memory == 0 || b.Job != 2 || b.Worker != "node-2" || told.Total != 2 {
		t.Errorf("told: %+v", told)
	}
	if told := all("--target=b"); len(told.Jobs) != 1 || told.Jobs[0].Job != 2 || told.Total != 1 {
		t.Errorf("of target b: %+v", told)
	}
	got := jobctl(t, master, "--master", "ps")
	if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); len(lines) != 3 || !strings.Contains(lines[0], "WORKER") || !strings.Contains(got.stdout, "\n1 ") || !strings.Contains(got.stdout, "\n2 ") {
		t.Errorf("the table is\n%s", got.stdout)
	}
	if got := jobctl(t, one, "ps", "--sort=size"); got.code != 2 || !strings.Contains(got.stderr, "allowed are: age, cpu, memory") {
		t.Errorf("an order that there is not: %+v", got)
	}
}
