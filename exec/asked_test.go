package exec_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
)

// A client's request stands in the journal right before the first thing that is done about it, with
// who asked; one that changes nothing does not.
func TestARequestIsJournalledWithWhatIsDoneAboutIt(t *testing.T) {
	t.Parallel()
	row := journal.Row{Job: 3, Target: "a", Status: journal.RowDone}
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a"), row), nil)
	f.runner.instant = true
	f.start()
	vain, err := f.worker.RunManual(t.Context(), []int64{3, 9}, "somebody")
	if err != nil || vain.Requested {
		t.Fatalf("%+v, %v; nothing was done", vain, err)
	}
	answer, err := f.worker.RunManual(t.Context(), []int64{2, 1, 9}, "a client")
	if err != nil || !answer.Requested || answer.Jobs[1].Result != "ok" || answer.Jobs[2].Result != "ok" {
		t.Fatalf("%+v, %v", answer, err)
	}
	asked := f.of(journal.KindRequested)
	if want := []journal.Payload{journal.Requested{Jobs: []int64{1, 2, 9}, By: "a client"}}; !cmp.Equal(want, asked.payloads) {
		t.Fatalf("requests %+v, want %+v", asked.payloads, want)
	}
	if first := f.events(1)[0]; first.Kind() != journal.KindAccepted || first.Seq != asked.seqs[0]+1 {
		t.Errorf("event %d %s of job 1 is not the one behind the request, %d", first.Seq, first.Kind(), asked.seqs[0])
	}
}

// ofKind is the worker's own events of a kind.
type ofKind struct {
	seqs     []uint64
	times    []time.Time
	payloads []journal.Payload
}

func (f *fixture) of(kind journal.Kind) (found ofKind) {
	f.t.Helper()
	for _, e := range f.events(0) {
		if e.Kind() == kind {
			found.seqs, found.payloads = append(found.seqs, e.Seq), append(found.payloads, e.Payload)
			found.times = append(found.times, e.Time)
		}
	}
	return found
}

// The start tells on which machine it is, and what runs a job; the last words stand before the end,
// and nothing after it.
func TestWhatAStartAndAnEndTell(t *testing.T) {
	t.Parallel()
	last := journal.Refused{Request: "pause", By: "a client", Times: 3}
	f := newFixture(t, newTable(), func(c *jobexec.Config) {
		c.Host = "host-1"
		c.LastWords = func() []journal.Payload { return []journal.Payload{last} }
	})
	f.start()
	opened := f.of(journal.KindOpened).payloads[0].(journal.Opened)
	if want := []string{"/launcher", "--job={id}"}; opened.Host != "host-1" || !cmp.Equal(want, opened.Launcher) {
		t.Errorf("opened says %+v", opened)
	}
	f.stop()
	err := <-f.ended
	f.ended <- err
	if err != nil {
		t.Fatal(err)
	}
	if err := f.worker.Note(journal.Refused{Request: "late"}); err == nil {
		t.Error("something was journalled behind the end")
	}
	events := f.events(0)
	if n := len(events); n < 2 || events[n-1].Kind() != journal.KindClosed || !cmp.Equal(journal.Payload(last), events[n-2].Payload) {
		t.Errorf("the last events are %+v", events[max(0, n-2):])
	}
}

// Why a job is started once more is told before it is.
func TestARequeueTellsWhy(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	f := newFixture(t, newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: accepted.Token}), func(c *jobexec.Config) { c.Requeue = true })
	left(t, f.journal, accepted, journal.Running{Attempt: 1, Runner: "runner-0"}, journal.Started{Pid: 4711, StartTime: 1, BootID: "boot"})
	f.start()
	f.next().exit(0)
	f.wait("the job is at its end", ended(1))
	want := journal.Requeued{
		Reason: "the worker and its runner were killed, or the machine lost power, while it ran",
		By:     "on_crash = requeue", Token: accepted.Token,
	}
	if diff := cmp.Diff(journal.Payload(want), f.events(1)[3].Payload); diff != "" {
		t.Errorf("requeued (-want +got):\n%s", diff)
	}
}

// Regression: a worker was killed between an ignored event and its COMMIT, and the journal said
// ignored for ever of a row that reads manual.
func TestRowsThatWereIgnoredLastAreAsked(t *testing.T) {
	t.Parallel()
	row := func(id int64, status string) journal.Row { return journal.Row{Job: id, Target: "c", Status: status} }
	f := newFixture(t, newTable(row(1, journal.RowManual), row(2, journal.RowIgnored)), func(c *jobexec.Config) {
		c.Doubtful = func() map[int64]journal.Payload {
			return map[int64]journal.Payload{1: journal.Ignored{}, 2: journal.Ignored{}, 3: journal.Ignored{}}
		}
	})
	for id := range int64(3) {
		if _, err := f.journal.Append(journal.Draft{Job: id + 1, Payload: journal.Ignored{Reason: "cancelled by me"}}); err != nil {
			t.Fatal(err)
		}
	}
	f.start()
	f.wait("the first is taken back", func(s *journal.State) bool { return s.Seq >= 5 })
	f.takenBack("when the worker was started again the row was manual")
	answer := make(chan jobexec.Answer[jobexec.Result], 1)
	go func() {
		a, _ := f.worker.RunManual(t.Context(), []int64{2, 3}, "me")
		answer <- a
	}()
	select {
	case a := <-answer:
		if a.Errors[2] != "status = ignored != manual" {
			t.Errorf("%+v", a)
		}
	case <-time.After(hung):
		t.Fatal("no answer")
	}
	for _, id := range []int64{2, 3} { // ignored as it should be, and deleted since
		if got := words(f.story(id)); got != "ignored" {
			t.Errorf("story of job %d: %q", id, got)
		}
	}
}
