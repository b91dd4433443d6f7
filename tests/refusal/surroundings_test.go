package refusal

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestPortInUse(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	code, output := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"port": port}).Refused(t)
	expect(t, code, 1, output, listener.Addr().String(), "address already in use")

	s := harness.Settings{"host": "127.0.0.1", "port": port}
	master := harness.Launch(t, "jobd-master", s.Write(t), "")
	expect(t, master.ExitCode(t), 1, master.Output(), listener.Addr().String(), "address already in use")
}

// A folder below a regular file can be made by nobody, not even by root.
func TestJournalFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "file")
	harness.Touch(t, file)
	code, output := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"journal_dir": filepath.Join(file, "journal")}).Refused(t)
	expect(t, code, 1, output, "journal_dir", file)
}

func TestSecondWorkerOnTheSameJournal(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "first", "/bin/true {id}", map[string]int{"a": 1})
	first := settings.StartWorker(t)
	begun := time.Now()
	code, output := settings.With(harness.Settings{"name": "second", "port": harness.FreePort(t)}).Refused(t)
	t.Logf("refused after %s", time.Since(begun))
	expect(t, code, 1, output, settings["journal_dir"], fmt.Sprint(first.Pid))
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, first.Addr).Ask(t, "poll", nil)
	db.AwaitDone(t, 1)
}
