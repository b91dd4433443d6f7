package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// example is the script that people copy.
func example(t *testing.T) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(harness.Top(), "examples", "launchers", "fastcgi.php")))(t)
	return path
}

// changed is the service of a copy of the example in which jobs do something else.
func (f *fpm) changed(name, body string) jobexec.Service {
	f.t.Helper()
	source := must.Get(os.ReadFile(example(f.t)))(f.t)
	const prints = `    echo "job $id, attempt ", $_SERVER['JOBD_ATTEMPT'], "\n";`
	code, found := strings.CutPrefix(strings.Replace(string(source), prints, body, 1), "<?php\n")
	if !found || !strings.Contains(code, body) {
		f.t.Fatal("the example does not print the attempt, or is no PHP")
	}
	return f.script(name, code)
}

func TestTheScriptOfTheExample(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 1, "php_flag[display_errors] = on")
	a := newAsker(t)
	for name, c := range map[string]struct{ body, want string }{
		"prints":  {`echo "job $id of {$_SERVER['JOBD_TARGET']}\n";`, `ok 0 out "job * of mail\n" err ""`},
		"code":    {`echo "why\n"; return 7;`, `fail 7 out "" err "Status: 200 OK\nwhy\n"`},
		"throws":  {`throw new Exception('told');`, `fail 255 out "" err "Status: 200 OK\nPHP message: Exception: told in *\n#0 *\nException: told"`},
		"exits":   {`exit(3);`, `fail 2 out "" err "Status: 200 OK\n"`},
		"much":    {`echo str_repeat('x', 100_000); flush();`, `ok 0 out "xxx*`},
		"is late": {`echo 'late';`, `fail 2 out "" err "Status: 200 OK\n"`},
	} {
		service := a.serve(f.changed(strings.ReplaceAll(name, " ", "_"), c.body))
		a.deadline = ""
		if name == "is late" {
			a.deadline = "1000000000"
		}
		if got := shown(a.run(service)); !like(got, c.want) {
			t.Errorf("what %s ended as %s, not %s", name, got, c.want)
		}
	}
}

// From the row to the row.
func TestAWorkerSendsItsJobsToPHP(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 4)
	db := harness.NewDatabase(t)
	throws := f.changed("throws", `throw new Exception('told');`)
	w := db.Worker(t, "node-1", "fastcgi:"+f.address+" "+example(t), map[string]int{"a": 3, "b": 1}).With(
		harness.Terms("b", harness.Settings{"launcher": "fastcgi:" + f.address + " " + throws.Script})).StartWorker(t)
	db.InsertMany(t, 40, "a", "waiting")
	db.Insert(t, 41, "b", "waiting")
	jobctl(t, w, "poll", "a", "b")
	db.AwaitCount(t, 40, "status = 'done' AND result = 'ok' AND return_code = 0")
	for id := int64(1); id <= 40; id++ {
		if got := harness.Text(db.Row(t, id).Stdout); got != fmt.Sprintf("job %d, attempt 1\n", id) {
			t.Errorf("row %d has %q", id, got)
		}
	}
	row := db.AwaitDone(t, 41)
	said := fmt.Sprintf("%s %d %q %s", harness.Text(row.Result), *row.Code, harness.Text(row.Stdout), harness.Text(row.Stderr))
	if want := "fail 255 \"\" Status: 200 OK\nPHP message: Exception: told in *\nException: told"; !like(said, want) {
		t.Errorf("the row of the job that throws has %s", said)
	}
	if log := jobctl(t, w, "--output=json", "journal", "log", "--job", "1"); !strings.Contains(log, `"executor":"fastcgi"`) || !strings.Contains(log, `"address":"`+f.address+`"`) {
		t.Errorf("the journal has\n%s", log)
	}
}
