package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// recording starts a master with a journal.
func recording(t *testing.T, dir string, lines ...string) *program {
	t.Helper()
	return launch(t, "--config", write(t, append([]string{
		"host = 127.0.0.1", "port = 0", "log_level_console = info", "journal_dir = " + dir,
	}, lines...)...))
}

// events are those of a folder, as kind and payload.
func events(t *testing.T, dir string, kinds ...journal.Kind) (all []journal.Payload) {
	t.Helper()
	r := must.Get(replay.Open(dir))(t)
	for e, err := range r.Events(t.Context(), journal.Filter{Kinds: kinds}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Payload)
	}
	return all
}

// kindsOf are the kinds of events, in their order.
func kindsOf(all []journal.Payload) (kinds []journal.Kind) {
	for _, e := range all {
		kinds = append(kinds, e.Kind())
	}
	return kinds
}

func mustVerify(t *testing.T, dir string) {
	t.Helper()
	must.Get(readtest.VerifyAll(context.Background(), readtest.OpenReader(t, dir)))(t)
}

// ask sends a request; the answer is the text of the error, if there is one.
func ask(t *testing.T, link *jobnet.Link, typ, data string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := link.Request(ctx, typ, json.RawMessage(data))
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// joined connects a worker that serves target a and does what the handlers say.
func joined(t *testing.T, address, name string, handlers map[string]jobnet.Handler) *jobnet.Link {
	t.Helper()
	link := must.Get(jobnet.Connect(context.Background(), address, jobnet.LinkConfig{Handlers: handlers}))(t)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = link.Run(context.Background()) }()
	t.Cleanup(func() { _ = link.Close(); <-ended })
	if got := ask(t, link, "register-worker", fmt.Sprintf(`{"name":%q,"targets":["a"]}`, name)); got != `"ok"` {
		t.Fatalf("registered: %s", got)
	}
	return link
}

// stop ends a master in order.
func (d *program) stop() {
	d.t.Helper()
	must.Do(d.t, d.process.Process.Signal(syscall.SIGTERM))
	if code := d.code(); code != 0 {
		d.t.Errorf("exit code %d; stderr:\n%s", code, d.stderr)
	}
}

// What the master is asked to change is in its journal before a worker is asked, with who wants it; what
// is refused, and which workers come and go, are too. Questions and pokes are not.
func TestActsAreInTheJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	d := recording(t, dir)
	address := d.address()
	asked := make(chan []journal.Payload, 10)
	does := func(answer string) jobnet.Handler {
		return func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			asked <- events(t, dir, journal.KindRequested)
			return json.RawMessage(answer), nil
		}
	}
	worker := joined(t, address, "node-1", map[string]jobnet.Handler{
		"pause": does(`"ok"`), "run-manual": does(`{"jobs":{}}`), "cancel": does(`{"jobs":{}}`), "send-signal": does(`{"9":true}`),
		"poll": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return "ok", nil },
	})
	client := connect(t, address)
	for i, request := range []struct{ typ, data, want string }{
		{"pause", `{"targets":["a"]}`, `request "pause", about "targets=[\"a\"]", jobs [], workers [node-1]`},
		{"run-manual", `{"jobs":[{"id":8,"target":"a"},{"id":7,"target":"a"},{"id":8,"target":"a"}]}`, `request "run-manual", about "", jobs [7 8], workers [node-1]`},
		{"cancel", `{"ids":[9],"grace":5,"worker":"node-1"}`, `request "cancel", about "grace=5", jobs [9], workers [node-1]`},
		{"send-signal", `{"jobs":[{"id":9,"signal":15,"target":"a"}]}`, `request "send-signal", about "jobs=[{\"id\":9,\"signal\":15,\"target\":\"a\"}]", jobs [9], workers [node-1]`},
	} {
		ask(t, client, request.typ, request.data)
		seen := <-asked
		must.Equal(t, len(seen), i+1, "when the worker was asked for %s the journal had %+v", request.typ, seen)
		e := seen[i].(journal.Requested)
		if got := fmt.Sprintf("request %q, about %q, jobs %v, workers %v", e.Request, e.About, e.Jobs, e.Workers); got != request.want || !strings.HasPrefix(e.By, "127.0.0.1") {
			t.Errorf("%s by %s, want %s", got, e.By, request.want)
		}
	}
	ask(t, client, "poke", `{"targets":["a"]}`)
	ask(t, client, "status", `{}`)
	for typ, data := range map[string]string{
		"continue": `{"targets":7}`, "run-manual": `{"jobs":[{"id":1,"target":"nowhere"}]}`, "pause": `{"targets":["nowhere"]}`,
	} {
		ask(t, client, typ, data)
	}
	_ = worker.Close()
	d.until("the worker has left", func() bool { return strings.Contains(d.stderr.String(), "worker left") })
	d.stop()
	mustVerify(t, dir)
	all := events(t, dir)
	want := []journal.Kind{"opened", "registered", "requested", "requested", "requested", "requested", "refused", "refused", "refused", "left", "closed"}
	check.Elements(t, kindsOf(all), want, "journalled")
	if o := all[0].(journal.Opened); o.Name != journal.MasterName || o.Pid != d.process.Process.Pid || o.BootID == "" {
		t.Errorf("%+v", o)
	}
	if r := all[1].(journal.Registered); r.Worker != "node-1" || !slices.Equal(r.Targets, []string{"a"}) || !strings.HasPrefix(r.By, "127.0.0.1") {
		t.Errorf("%+v", r)
	}
	reasons := map[string]string{"continue": "targets must be array", "run-manual": nobody, "pause": nobody}
	for _, e := range events(t, dir, journal.KindRefused) {
		if r := e.(journal.Refused); !strings.Contains(r.Reason, reasons[r.Request]) || !strings.HasPrefix(r.By, "127.0.0.1") || r.About == "" {
			t.Errorf("%+v", r)
		}
	}
}

const nobody = "no worker was there to be asked"

// A master that is killed leaves a whole journal, whose run has no end: the next start tells.
func TestAKilledMastersJournalGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	d := recording(t, dir)
	joined(t, d.address(), "node-1", map[string]jobnet.Handler{"pause": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
		_ = d.process.Process.Kill() // the client never hears of it
		return "ok", nil
	}})
	ask(t, connect(t, d.address()), "pause", `{}`)
	d.code()
	mustVerify(t, dir)
	d = recording(t, dir)
	d.address()
	if !strings.Contains(d.stderr.String(), "did not end in order") {
		t.Errorf("stderr:\n%s", d.stderr)
	}
	d.stop()
	d = recording(t, dir)
	d.address()
	if strings.Contains(d.stderr.String(), "did not end in order") {
		t.Errorf("after one that did; stderr:\n%s", d.stderr)
	}
	want := []journal.Kind{"opened", "registered", "requested", "opened", "closed", "opened"}
	check.Elements(t, kindsOf(events(t, dir)), want, "journalled")
	mustVerify(t, dir)
}

// Two masters don't write one journal, and none writes a worker's.
func TestAJournalIsOneMasters(t *testing.T) {
	t.Parallel()
	dir, other := filepath.Join(t.TempDir(), "journal"), t.TempDir()
	recording(t, dir).address()
	j := journaltest.OpenTest(t, other)
	journaltest.MustAppend(t, j, journal.Draft{Payload: journal.Opened{Name: "node-1"}})
	journaltest.MustClose(t, j)
	for at, want := range map[string]string{dir: "is in use by process ", other: "is that of worker 'node-1'"} {
		if d := recording(t, at); d.code() != 1 || !strings.Contains(d.stderr.String(), want) {
			t.Errorf("exit code %d, want 1 and %q; stderr:\n%s", d.code(), want, d.stderr)
		}
	}
}

// refuses tells that changes are refused, and nothing else is.
func refuses(t *testing.T, d *program, why string) {
	t.Helper()
	polled := make(chan struct{}, 100)
	joined(t, d.address(), "node-1", map[string]jobnet.Handler{
		"poll": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			polled <- struct{}{}
			return "ok", nil
		},
		"pause": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			t.Error("a worker was asked for a change that is not in the journal")
			return "ok", nil
		},
	})
	client := connect(t, d.address())
	for range 3 {
		if got := ask(t, client, "pause", `{"targets":["a"]}`); !strings.Contains(got, "nothing was changed: the master can't journal who asked: ") || !strings.Contains(got, why) {
			t.Errorf("the client is told %q, want %q", got, why)
		}
	}
	if got := ask(t, client, "run-manual", `{"jobs":[{"id":1,"target":"a"}]}`); !strings.Contains(got, "nothing was changed") {
		t.Errorf("the client is told %q", got)
	}
	check.Equal(t, ask(t, client, "poke", `{"targets":["a"]}`), `"ok"`, "poke")
	<-polled
	if got := ask(t, client, "status", `{}`); !strings.Contains(got, `"troubles":[{"what":"journal","why":`) || !strings.Contains(got, `"name":"node-1"`) {
		t.Errorf("status: %s", got)
	}
}

// smallDisk mounts a disk of a few MiB.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	must.Do(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk; the journal's own tests of a full disk stand in")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fill leaves so many bytes of a disk.
func fill(t *testing.T, dir string, left int64) (file string) {
	t.Helper()
	var s syscall.Statfs_t
	must.Do(t, syscall.Statfs(dir, &s))
	file = filepath.Join(dir, "others")
	if err := os.WriteFile(file, make([]byte, int64(s.Bavail)*s.Bsize-left), 0o600); err != nil && !(left == 0 && errors.Is(err, syscall.ENOSPC)) { // it was full before
		t.Fatal(err)
	}
	return file
}

// Without room for the journal changes are refused, since nobody would know who wanted them. Pokes,
// status and registrations go on, and changes too, once there is room again.
func TestAFullDiskKeepsBackChangesOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line string
		left int64
		why  string
	}{
		"nearly full": {"journal_min_free = 64MiB", 100 << 10, "are needed (key journal_min_free)"},
		"full":        {"journal_min_free = 0", 0, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t)
			d := recording(t, dir, test.line)
			d.address()
			file := fill(t, dir, test.left)
			refuses(t, d, test.why)
			must.Do(t, os.Remove(file))
			paused := make(chan struct{}, 100)
			joined(t, d.address(), "node-2", map[string]jobnet.Handler{"pause": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
				paused <- struct{}{}
				return "ok", nil
			}})
			client := connect(t, d.address())
			d.until("changes are taken again", func() bool {
				return !strings.Contains(ask(t, client, "continue", `{"targets":["a"]}`), "nothing was changed")
			})
			if got := ask(t, client, "status", `{}`); strings.Contains(got, "troubles") {
				t.Errorf("status: %s", got)
			}
			d.stop()
			mustVerify(t, dir)
			if all := kindsOf(events(t, dir)); !slices.Contains(all, journal.KindRequested) || all[len(all)-1] != journal.KindClosed {
				t.Errorf("journalled %v", all)
			}
		})
	}
}

// A journal that is damaged, or lost its disk's room before the start, keeps no poke back.
func TestADamagedJournalKeepsBackChangesOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	d := recording(t, dir)
	d.address()
	d.stop()
	head := filepath.Join(dir, "head")
	content := must.Get(os.ReadFile(head))(t)
	must.Do(t, os.WriteFile(head, []byte(strings.Replace(string(content), "00002 ", "00009 ", 1)), 0o600))
	d = recording(t, dir)
	d.address()
	refuses(t, d, "damaged")
	if code := launch(t, "--config", write(t, "host = 127.0.0.1", "port = 0", "journal_dir = "+dir), "--check").code(); code != 1 {
		t.Errorf("--check ends with %d", code)
	}
}

// Who floods the master with refused requests, and a worker that comes and goes, write some events, and
// are counted.
func TestFloodsAreBounded(t *testing.T) {
	t.Parallel()
	const times = 1000
	dir := filepath.Join(t.TempDir(), "journal")
	d := recording(t, dir)
	address := d.address()
	client, worker := connect(t, address), joined(t, address, "steady", nil)
	for i := range times {
		ask(t, client, "pause", fmt.Sprintf(`{"targets":%d}`, i))
		ask(t, client, "run-manual", fmt.Sprintf(`{"jobs":[{"id":%d,"target":"nowhere"}]}`, i+1))
		must.Equal(t, ask(t, worker, "register-worker", fmt.Sprintf(`{"name":"wild","targets":["a%d"]}`, i)), `"ok"`)
	}
	joined(t, address, "last", nil)
	d.stop()
	refused, registered := 0, 0
	all := events(t, dir)
	for _, e := range all {
		switch e := e.(type) {
		case journal.Refused:
			refused += max(1, e.Times)
		case journal.Registered:
			registered += 1 + e.Times
		}
	}
	if len(all) > 2*mostOfOne || refused != 2*times || registered != times+2 {
		t.Errorf("events: %d; refusals: %d, want %d; registrations: %d, want %d", len(all), refused, 2*times, registered, times+2)
	}
}

// Segments that are old enough go, although no table shows their events.
func TestOldSegmentsGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := eventlog.Open(t.Context(), eventlog.Config{Dir: mustMake(t, dir), SegmentAge: 1, Now: readtest.Ticking()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		must.Get(j.Append(journal.Draft{Payload: journal.Opened{Name: journal.MasterName}}))(t)
	}
	must.Do(t, j.Close())
	d := recording(t, dir, "journal_retention = 1s")
	d.address()
	d.until("the oldest segment is removed", func() bool {
		_, err := os.Stat(filepath.Join(dir, "segment-00000001.zst"))
		_, open := os.Stat(filepath.Join(dir, "segment-00000001.db"))
		return err != nil && open != nil
	})
	mustVerify(t, dir)
}

func mustMake(t *testing.T, dir string) string {
	t.Helper()
	must.Do(t, os.Mkdir(dir, 0o700))
	return dir
}
