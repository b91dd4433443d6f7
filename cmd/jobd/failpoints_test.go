package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// TestMain makes this binary a worker that knows the failpoints, where it is not asked for tests. It is
// built so for tests of whole workers (tests/harness).
func TestMain(m *testing.M) {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") }) {
		failTable, failMirror, failWorker, failPulse = armTable, armMirror, armWorker, armPulse
		main()
	}
	os.Exit(m.Run())
}

// failpointFile in the journal's folder says where this process is to kill itself, or to hang: the
// name of a point, and the how manieth time it is reached where that is not the first, as in
// "done-appended:3". A file, because a variable would be a configuration key, or reach the jobs.
const failpointFile = "failpoint"

// failpoints are the moments between the steps of a job; the package documentation of exec
// says what the next start makes of each.
var failpoints = []string{
	"claim-selected",     // rows are locked, nothing is journalled
	"accepted-appended",  // the rows are not updated
	"commit-sent",        // nobody knows whether it arrives
	"commit-answered",    // the jobs are not queued
	"running-appended",   // the row says accepted
	"running-mirrored",   // the row says running, no process
	"start-asking",       // the runner knows nothing
	"start-asked",        // within some milliseconds: the runner knows, or not; the process is there, or not
	"started",            // the process is there, its id is not journalled
	"started-appended",   //
	"request-asking",     // a job that is a request: no connection
	"request-held",       // the connection may be there, its address is not journalled
	"request-proceeding", // it is journalled, nothing is sent
	"request-proceeded",  // all is sent, or a part of it, or nothing
	"exit-seen",          // the outcome is in memory and with the runner
	"done-appended",      // the runner still keeps the outcome, the row says running
	"forgotten",          // the runner was told, or not
	"update-sent",        // the mirror's COMMIT
	"done-mirrored",      // the position is not written
	"delayed-mirrored",   // the same of a row that comes back
	"planned-appended",   // the rows that are not run, but planned anew, are not updated
	"replanned-appended", // the row's end, planned anew, is not in the table
	"retry-selected",     // rows that have ended are locked, nothing is journalled
	"retried-appended",   // the rows are not updated
	"retry-sent",         // nobody knows whether its COMMIT arrives
	"retry-answered",     // nobody was told
	"checkpoint",         // within some milliseconds of writing the position and emptying the log
}

// failpoint is the one that is armed; where none is, its name is "".
type failpoint struct {
	name string
	left atomic.Int64
}

func readFailpoint(journalDir string) *failpoint {
	content, err := os.ReadFile(filepath.Join(journalDir, failpointFile))
	if errors.Is(err, os.ErrNotExist) {
		return &failpoint{}
	}
	if err != nil {
		panic(err)
	}
	name, nth, counted := strings.Cut(strings.TrimSpace(string(content)), ":")
	point, count := &failpoint{name: name}, 1
	if counted {
		count, err = strconv.Atoi(nth)
	}
	if err != nil || !slices.Contains(failpoints, name) && !isHang(name) {
		panic(fmt.Sprintf("failpoint %q: want one of %q, or one with a colon and a number", content, failpoints))
	}
	point.left.Store(int64(count))
	return point
}

// due tells whether this is the time to die.
func (f *failpoint) due(name string) bool { return f.name == name && f.left.Add(-1) == 0 }

// reach dies if it is time.
func (f *failpoint) reach(name string) {
	if f.due(name) {
		die()
	}
}

// during dies, if it is time, at some moment of the first milliseconds of work.
func (f *failpoint) during(name string, work func()) {
	if f.due(name) {
		go work()
		<-time.After(rand.N(3 * time.Millisecond))
		die()
	}
}

// die ends the process as a crash would: nothing runs any more.
func die() {
	_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
	select {}
}

// armTable makes a table whose connections know the points of a COMMIT.
func armTable(journalDir string, c mysql.Config) mysql.Config {
	point := readFailpoint(journalDir)
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return failingConn{conn, point}, nil
	}
	return c
}

type failingConn struct {
	net.Conn
	point *failpoint
}

// Write implements net.Conn. The driver writes a packet in one go.
func (c failingConn) Write(packet []byte) (int, error) {
	n, err := c.Conn.Write(packet)
	switch {
	case !bytes.Contains(packet, []byte("COMMIT")):
	case bytes.Contains(packet, []byte("status IN ('done','ignored')")):
		c.point.reach("retry-sent")
	case bytes.Contains(packet, []byte("status IN ('accepted','running')")):
		c.point.reach("update-sent")
	case bytes.Contains(packet, []byte("status IN ('waiting','manual')")), bytes.Contains(packet, []byte("status = 'delayed'")):
		c.point.reach("commit-sent")
	default:
		c.point.reach("update-sent")
	}
	return n, err
}

// armMirror makes a mirror that knows the points behind its updates.
func armMirror(journalDir string, c store.Config) store.Config {
	point := readFailpoint(journalDir)
	c.Table = failingApplier{c.Table, point}
	c.Source = failingSource{c.Source, point}
	c.Bookmark = failingBookmark{c.Bookmark, point}
	return c
}

type failingSource struct {
	store.Source
	point *failpoint
}

// Append implements store.Source.
func (s failingSource) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := s.Source.Append(drafts...)
	for _, e := range events {
		s.point.reach(string(e.Kind()) + "-appended")
	}
	return events, err
}

type failingApplier struct {
	store.Applier
	point *failpoint
}

// Apply implements store.Applier.
func (a failingApplier) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	outcomes, err := a.Applier.Apply(ctx, changes)
	if err == nil {
		for _, change := range changes {
			a.point.reach(change.Status + "-mirrored")
		}
	}
	return outcomes, err
}

type failingBookmark struct {
	store.Bookmark
	point *failpoint
}

// Rest implements store.Bookmark.
func (b failingBookmark) Rest() error {
	b.point.during("checkpoint", func() { _ = b.Bookmark.Rest() })
	return b.Bookmark.Rest()
}

// armWorker makes a worker that knows the points of a job's way.
func armWorker(journalDir string, c jobexec.Config) jobexec.Config {
	point := readFailpoint(journalDir)
	c.Recorder = failingRecorder{c.Recorder, point}
	c.Table = failingClaimer{c.Table, point}
	c.Runner = failingRunner{c.Runner, point}
	c.Keeper = failingKeeper{c.Keeper, point}
	c.Requester = failingRequester{c.Requester, point}
	return c
}

type failingRecorder struct {
	jobexec.Recorder
	point *failpoint
}

// Append implements jobexec.Recorder.
func (r failingRecorder) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := r.Recorder.Append(drafts...)
	for _, e := range events {
		r.point.reach(string(e.Kind()) + "-appended")
	}
	return events, err
}

type failingClaimer struct {
	jobexec.Claimer
	point *failpoint
}

// Claim implements jobexec.Claimer.
func (c failingClaimer) Claim(ctx context.Context, room map[string]int, except []int64, decide func([]journal.Row) ([]journal.Event, error)) error {
	claimed := false
	err := c.Claimer.Claim(ctx, room, except, func(rows []journal.Row) ([]journal.Event, error) {
		claimed = true
		c.point.reach("claim-selected")
		return decide(rows)
	})
	if err == nil && claimed {
		c.point.reach("commit-answered")
	}
	return err
}

// ClaimManual implements jobexec.Claimer.
func (c failingClaimer) ClaimManual(
	ctx context.Context, ids []int64, targets []string, decide func([]journal.Row) ([]journal.Event, error),
) (locked []int64, err error) {
	retries := false
	locked, err = c.Claimer.ClaimManual(ctx, ids, targets, func(rows []journal.Row) ([]journal.Event, error) {
		retries = slices.ContainsFunc(rows, func(row journal.Row) bool {
			return row.Status == journal.RowDone || row.Status == journal.RowIgnored
		})
		if retries {
			c.point.reach("retry-selected")
		}
		return decide(rows)
	})
	if err == nil && retries {
		c.point.reach("retry-answered")
	}
	return locked, err
}

type failingRunner struct {
	jobexec.Runner
	point *failpoint
}

// Start implements jobexec.Runner.
func (r failingRunner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	r.point.reach("start-asking")
	r.point.during("start-asked", func() { _, _ = r.Runner.Start(spec) })
	process, err := r.Runner.Start(spec)
	if err != nil {
		return nil, err
	}
	r.point.reach("started")
	return failingProcess{process, r.point}, nil
}

type failingKeeper struct {
	jobexec.Keeper
	point *failpoint
}

// Recall implements jobexec.Keeper.
func (k failingKeeper) Recall(underWay []jobexec.Spec) []jobexec.Recalled {
	recalled := slices.Clone(k.Keeper.Recall(underWay))
	for i := range recalled {
		recalled[i].Process = failingProcess{recalled[i].Process, k.point}
	}
	return recalled
}

// Forget implements jobexec.Keeper.
func (k failingKeeper) Forget(job int64, token string, attempt int) {
	k.Keeper.Forget(job, token, attempt)
	k.point.reach("forgotten")
}

type failingProcess struct {
	jobexec.Process
	point *failpoint
}

// Outcome implements jobexec.Process.
func (p failingProcess) Outcome() (journal.Done, error) {
	p.point.reach("exit-seen")
	return p.Process.Outcome()
}

// loops are the names under which the pulse knows the loops. At the failpoint NAME-hangs the loop of
// that name never comes to the end of its work.
var loops = []string{"worker", "mirror", "runner link", "accept"}

const hangs = "-hangs"

// isHang tells whether a failpoint is one at which a loop hangs.
func isHang(name string) bool {
	return slices.ContainsFunc(loops, func(loop string) bool { return loop+hangs == name })
}

// armPulse makes a pulse whose loop hangs where a test says so.
func armPulse(journalDir, name string, p jobexec.Pulse) jobexec.Pulse {
	return hangingPulse{p, readFailpoint(journalDir), name + hangs}
}

type hangingPulse struct {
	jobexec.Pulse
	point *failpoint
	name  string
}

// Works implements jobexec.Pulse.
func (h hangingPulse) Works() {
	h.Pulse.Works()
	if h.point.due(h.name) {
		select {}
	}
}

type failingRequester struct {
	jobexec.Requester
	point *failpoint
}

// Start implements jobexec.Requester.
func (r failingRequester) Start(spec jobexec.Spec) (jobexec.Process, error) {
	r.point.reach("request-asking")
	process, err := r.Requester.Start(spec)
	if err != nil {
		return nil, err
	}
	r.point.reach("request-held")
	return failingHeld{failingProcess{process, r.point}, process.(jobexec.Held)}, nil
}

type failingHeld struct {
	failingProcess
	held jobexec.Held
}

// Proceed implements jobexec.Held.
func (h failingHeld) Proceed() {
	h.point.reach("request-proceeding")
	h.held.Proceed()
	h.point.reach("request-proceeded")
}

// Of each row the newest event counts that is about its being ignored or set back, unless something
// else is known since.
func TestRowsThatMayNotBeWhatTheJournalSays(t *testing.T) {
	t.Parallel()
	of := journal.Retried{Target: "a", From: "done", To: "waiting"}
	ignored := journal.Ignored{Reason: "not found"}
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	released := journal.Released{Reason: "paused", Token: "@abcdefghi"}
	notIgnored := journal.Conflict{Wanted: journal.RowIgnored, Reason: "the row was manual"}
	notRetried := journal.Conflict{Wanted: journal.WantedRetried, Reason: "the row was done"}
	j := journaltest.OpenTest(t, t.TempDir())
	far := journaltest.MustAppend(t, j, journal.Draft{Job: 100, Payload: ignored}, journal.Draft{Job: 101, Payload: of})
	want := map[int64]journal.Payload{}
	for i, life := range []struct {
		of   []journal.Payload
		want journal.Status
	}{
		{[]journal.Payload{ignored}, journal.StatusIgnored},
		{[]journal.Payload{of}, journal.StatusRetried},
		{[]journal.Payload{ignored, of}, journal.StatusRetried},
		{[]journal.Payload{of, ignored}, journal.StatusIgnored},
		{[]journal.Payload{of, of}, journal.StatusRetried},
		{[]journal.Payload{ignored, accepted}, ""},
		{[]journal.Payload{of, accepted}, ""},
		{[]journal.Payload{accepted, released, of}, journal.StatusRetried},
		{[]journal.Payload{ignored, notIgnored}, ""},
		{[]journal.Payload{ignored, notRetried}, journal.StatusIgnored},
		{[]journal.Payload{of, notRetried}, ""},
		{[]journal.Payload{of, notIgnored}, journal.StatusRetried},
		{[]journal.Payload{ignored, of, notRetried}, ""},
		{[]journal.Payload{of, notRetried, of}, journal.StatusRetried},
		{[]journal.Payload{of, notRetried, ignored}, journal.StatusIgnored},
	} {
		job := int64(i + 1)
		for _, payload := range life.of {
			journaltest.MustAppend(t, j, journal.Draft{Job: job, Payload: payload})
		}
		switch life.want {
		case journal.StatusIgnored:
			want[job] = journal.Ignored{}
		case journal.StatusRetried:
			want[job] = of
		}
	}
	got := must.Get(doubtfulBehind(t.Context(), readtest.OpenReader(t, j.Dir), far[1].Seq))(t)
	check.Equal(t, cmp.Diff(want, got), "", "rows in doubt (-want +got)")
}
