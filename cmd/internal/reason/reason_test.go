package reason

import (
	"crypto/sha256"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// now is 2026-11-20 12:00 UTC; at gives milliseconds of that day.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(clock string) int64 {
	of, err := time.Parse("2006-01-02 15:04:05", "2026-11-20 "+clock)
	if err != nil {
		panic(err)
	}
	return of.UnixMilli()
}

type (
	job     = api.ExplainedJob
	row     = api.JobRow
	target  = api.TargetStanding
	here    = api.JobStanding
	history = api.JobHistory
	aside   = api.QuarantinedJob
	probe   = api.JobProbe
	ahead   = api.JobsAhead
)

// of is the answer of a worker about job 5.
func of(name string, j job) Answer {
	j.Job = 5
	marks := map[string]string{"node-1": "aaaa", "node-2": "bbbb", "node-3": "cccc"}
	return Answer{Name: name, Explained: api.Explained{Name: name, Mark: marks[name], Targets: []string{"mail"}, Jobs: []job{j}}}
}

// silent is a worker that has not answered.
func silent(name, text string) Answer {
	return Answer{Name: name, Err: &jobnet.RemoteError{Text: text}}
}

// cannot is a worker that does not know the question.
func cannot(name string) Answer {
	return Answer{Name: name, Err: jobnet.Refusal("unknown request type: 'explain'").With(jobnet.CodeUnknown)}
}

// serves is a worker that has told nothing, and of which its master knows what it serves.
func serves(a Answer, targets ...string) Answer {
	a.Targets = targets
	return a
}

// tokenOf is a token of a worker of that name.
func tokenOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	token := []byte("@____abcde")
	for i := range 4 {
		token[i+1] = letters[sum[i]%32]
	}
	return string(token)
}

// waits is a row of target mail that waits, and how that stands on a worker.
func waits(t *target) job {
	return job{Row: &row{Target: "mail", Status: "waiting"}, Target: t, Ahead: &ahead{}}
}

// under is a row under way that nobody who answers has.
func under(status, owner string, h *history) job {
	return job{Row: &row{Target: "mail", Status: status, Owner: owner, Started: at("10:02:00") / 1000}, Journal: h}
}

func done(r row, h *history) job {
	r.Target, r.Status, r.Started, r.Finished = "mail", "done", at("10:02:00")/1000, at("10:02:03")/1000
	return job{Row: &r, Journal: h}
}

var (
	idle   = &target{Name: "mail", Concurrency: 4, Room: 4}
	looks  = &target{Name: "mail", Concurrency: 4, Room: 4, Looks: true}
	busy   = &target{Name: "mail", Concurrency: 4}
	single = &target{Name: "mail", Concurrency: 1}
	paused = &target{Name: "mail", Concurrency: 4, Paused: true, PausedSince: at("10:02:00"), PausedBy: "10.0.0.5:4711 via master 10.0.0.1:7081"}
)

func hindered(word, why string) *target {
	return &target{Name: "mail", Concurrency: 4, Hindered: word, Why: why, Since: at("10:02:00")}
}

func code(n int) *int { return &n }

// with has so many rows wait before the job.
func with(a Answer, rows int, more bool) Answer {
	a.Jobs[0].Ahead = &ahead{Rows: rows, More: more}
	return a
}

// A worker whose table is away tells so, with what its journal knows.
func TestTheTableCannotBeRead(t *testing.T) {
	t.Parallel()
	a := of("node-1", job{Journal: &history{Status: "done", Result: "fail", Code: code(3), At: at("10:05:00")}})
	a.Table = "connection refused"
	a.Database = &api.Standing{Since: now.Add(-time.Hour)}
	got := Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{a, silent("node-2", "no answer")})
	want := "job 5 may be anywhere: node-1 can't read the table since 11:00: connection refused; the journal of node-1 has it as done at 10:05 (exit code 3)"
	if got.Sentence != want || got.Reason != Unreadable {
		t.Errorf("%+v", got)
	}
	a.Jobs[0].Here = &here{Phase: "in doubt", Since: at("10:02:00")}
	got = Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{a})
	want = "job 5 was claimed by node-1 at 10:02, perhaps: the table has not told yet whether that was committed, because it can't be read since 11:00"
	if got.Sentence != want {
		t.Errorf("%s", got.Sentence)
	}
	got = Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{a, of("node-2", waits(busy))})
	if got.Reason != InDoubt { // what a worker has in its hands comes first
		t.Errorf("%+v", got)
	}
}

// A target that is named must be the row's, or one that its table takes for it.
func TestTheTargetThatWasNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Code{"mail": Next, "MAIL": Next, "pics": OtherTarget, "": Next} {
		as := of("node-1", job{Row: &row{Target: "mail", Status: "waiting"}, Ahead: &ahead{}, Target: &target{Name: "MAIL", Concurrency: 1, Room: 1, Looks: true}})
		got := Of(Question{Job: 5, Target: name, Now: now, Location: time.UTC}, []Answer{as})
		if got.Reason != want {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

// Only what nothing else explains is to be probed, and only once.
func TestWhatIsToBeProbed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		job  job
		want bool
	}{
		"room, and it looks":           {waits(looks), true},
		"room, and it does not":        {waits(idle), true},
		"nothing but locked rows":      {waits(hindered("locked", "")), true},
		"probed":                       {job{Row: waits(nil).Row, Target: looks, Probe: &probe{}}, false},
		"the slots are full":           {waits(busy), false},
		"paused":                       {waits(paused), false},
		"somebody else's claim":        {under("running", "@zzzz12345", nil), true},
		"somebody else's, probed":      {job{Row: under("running", "@zzzz12345", nil).Row, Probe: &probe{Marked: true}}, false},
		"its own claim":                {under("running", "@aaaaxxxxx", nil), false},
		"nobody's":                     {under("running", "", nil), false},
		"done":                         {done(row{Result: "ok"}, nil), false},
		"on the board of the worker":   {job{Row: waits(nil).Row, Here: &here{Phase: "queued"}, Target: looks}, false},
		"there is no row to be probed": {job{}, false},
	} {
		if got := Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{of("node-1", test.job)}); got.Probe != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Whatever texts others have put in, a sentence is one line, and not too long.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1000)
	got := Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{of("node-1", done(row{Result: "fail", Code: rowCode(3), Stderr: api.JobText{Tail: "x\n" + long + "\n"}}, nil))})
	if len(got.Sentence) > 400 || strings.Contains(got.Sentence, "\n") || !strings.HasSuffix(got.Sentence, "ü…") {
		t.Errorf("%d bytes: %s", len(got.Sentence), got.Sentence)
	}
	if text := errors.New("a\nb").Error(); cut(text) != "a b" {
		t.Errorf("%q", cut(text))
	}
}

var constant = regexp.MustCompile(`(?m)^\t\w+ +Code = "([a-z-]+)"`)

// allCodes are the codes as the source has them.
func allCodes(t *testing.T) (all []Code) {
	t.Helper()
	source := must.Get(os.ReadFile("reason.go"))(t)
	for _, match := range constant.FindAllStringSubmatch(string(source), -1) {
		all = append(all, Code(match[1]))
	}
	if len(all) < 30 {
		t.Fatalf("only %d codes were found", len(all))
	}
	return all
}

func rowCode(code int64) *int64 { return &code }
