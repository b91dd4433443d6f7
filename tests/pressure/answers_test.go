package pressure

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/tests/harness"
)

// answering is a worker, as a master sees it, that answers whatever it is asked with so many bytes of
// data, over and over, until the test ends. Where it is dropped it comes again.
func answering(t *testing.T, addr, name string, bytes int, until <-chan struct{}, all *sync.WaitGroup) {
	t.Helper()
	register := func() *harness.Wire {
		w := harness.Dial(t, addr)
		if answer := w.Ask(t, "register-worker", map[string]any{"name": name, "targets": []string{"a"}}); answer.Error != "" {
			t.Fatal(answer.Error)
		}
		return w
	}
	w := register()
	piece := []byte(strings.Repeat("x", 1<<20))
	all.Go(func() {
		defer w.Close()
		for {
			frame, err := w.Receive(100 * time.Millisecond)
			select {
			case <-until:
				return
			default:
			}
			if err != nil {
				continue
			}
			var kind int
			var request harness.Response
			if err := json.Unmarshal([]byte(frame), &[]any{&kind, &request}); err != nil {
				t.Errorf("%.100q: %v", frame, err)
				return
			}
			switch kind {
			case 2:
				err = w.Write([]byte("[3]\x04"))
			case 0:
				err = w.Write(fmt.Appendf(nil, `[1,{"no":%d,"data":{"x":"`, request.No))
				for sent := 0; sent < bytes && err == nil; sent += len(piece) {
					err = w.Write(piece[:min(len(piece), bytes-sent)])
				}
				if err == nil {
					err = w.Write([]byte("\"}}]\x04"))
				}
			}
			if err != nil { // the master has had enough
				return
			}
		}
	})
}

// Six workers answer with 256 MiB each: the master bounds what it takes of all of them together, and
// goes on with the honest one. Of ten it took 1.3 GiB.
//
// It runs alone: a collector that does not come to its turn lets the peak grow.
func TestMasterWithWorkersThatAnswerTooMuch(t *testing.T) {
	const mayTake = 600 << 20
	master := harness.StartMaster(t, harness.Settings{"log_level_console": "error"})
	until := make(chan struct{})
	var all sync.WaitGroup
	for n := range 6 {
		answering(t, master.Addr, fmt.Sprintf("rogue%d", n), 256<<20, until, &all)
	}
	answering(t, master.Addr, "honest", 10, until, &all)
	client := harness.Dial(t, master.Addr)
	for range 2 {
		answer := client.Ask(t, "status", map[string]any{"poll_workers": true})
		if !strings.Contains(string(answer.Data), `"workerStatus":{"x":"xxxxxxxxxx"}`) {
			t.Errorf("the honest worker's answer is missing: %.2000s %s", answer.Data, answer.Error)
		}
	}
	close(until)
	t.Logf("%d MiB at most", harness.MemoryPeak(t, master.Pid)>>20)
	atMost(t, "bytes in memory", int(harness.MemoryPeak(t, master.Pid)), mayTake)
	all.Wait()
}
