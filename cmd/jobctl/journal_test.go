package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/eventlog"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// begin is when the journals of these tests begin; each event is a second after the one before it.
var begin = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func openJournal(t *testing.T, dir string) *eventlog.Log {
	t.Helper()
	seconds := 0
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, Now: func() time.Time {
		seconds++
		return begin.Add(time.Duration(seconds) * time.Second)
	}}))(t)
	return j
}

func appendAll(t *testing.T, j *eventlog.Log, drafts ...journal.Draft) {
	t.Helper()
	for _, draft := range drafts {
		must.Get(j.Append(draft))(t)
	}
}

// oneDay makes a journal: job 5 is done, 6 was killed, 7 runs, 8 is ignored, 9 was released.
func oneDay(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir)
	code := 7
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: "web-1", Version: "0.1.0", Pid: 42, Targets: map[string]int{"b": 2, "a": 10}}},
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: "a", Token: "@tokenfive"}},
		journal.Draft{Job: 5, Payload: journal.Running{Attempt: 1}},
		journal.Draft{Job: 5, Payload: journal.Started{Pid: 100, StartTime: 1, BootID: "boot"}},
		journal.Draft{Job: 5, Payload: journal.Done{
			Result: "fail", Code: &code,
			Stdout: journal.Output{Kept: []byte("out"), Size: 3}, Stderr: journal.Output{Kept: []byte("bad\n"), Size: 9000},
		}},
		journal.Draft{Job: 6, Payload: journal.Accepted{Target: "b", Token: "@token_six", Manual: true}},
		journal.Draft{Job: 6, Payload: journal.Running{Attempt: 1}},
		journal.Draft{Job: 6, Payload: journal.Started{Pid: 101, StartTime: 2, BootID: "boot"}},
		journal.Draft{Job: 6, Payload: journal.Signal{Signo: 15, By: "10.0.0.9:4000"}},
		journal.Draft{Job: 6, Payload: journal.Done{Result: "fail", Signal: "SIGTERM"}},
		journal.Draft{Job: 7, Payload: journal.Accepted{Target: "a", Token: "@tokenseve"}},
		journal.Draft{Job: 7, Payload: journal.Running{Attempt: 1}},
		journal.Draft{Job: 8, Payload: journal.Ignored{Reason: "target 'x' not found"}},
		journal.Draft{Job: 9, Payload: journal.Accepted{Target: "a", Token: "@tokennine"}},
		journal.Draft{Job: 9, Payload: journal.Released{Reason: "the claim was lost"}},
		journal.Draft{Payload: journal.Paused{Targets: []string{"a", "b"}, By: "10.0.0.9:4001"}},
		journal.Draft{Payload: journal.ConcurrencySet{Target: "a", Concurrency: 3, By: "10.0.0.9:4001"}},
	)
	must.Do(t, j.Close())
	return dir
}

const wholeLog = `2026-11-20 10:00:01.000000        1  worker       opened          name=web-1 version=0.1.0 pid=42 targets=a:10,b:2
2026-11-20 10:00:02.000000        2  job 5        accepted        target=a token=@tokenfive
2026-11-20 10:00:03.000000        3  job 5        running         attempt=1
2026-11-20 10:00:04.000000        4  job 5        started         pid=100
2026-11-20 10:00:05.000000        5  job 5        done            result=fail code=7 stdout=3 stderr=9000
2026-11-20 10:00:06.000000        6  job 6        accepted        target=b manual=yes token=@token_six
2026-11-20 10:00:07.000000        7  job 6        running         attempt=1
2026-11-20 10:00:08.000000        8  job 6        started         pid=101
2026-11-20 10:00:09.000000        9  job 6        signal          signo=SIGTERM by=10.0.0.9:4000
2026-11-20 10:00:10.000000       10  job 6        done            result=fail signal=SIGTERM stdout=0 stderr=0
2026-11-20 10:00:11.000000       11  job 7        accepted        target=a token=@tokenseve
2026-11-20 10:00:12.000000       12  job 7        running         attempt=1
2026-11-20 10:00:13.000000       13  job 8        ignored         reason="target 'x' not found"
2026-11-20 10:00:14.000000       14  job 9        accepted        target=a token=@tokennine
2026-11-20 10:00:15.000000       15  job 9        released        reason="the claim was lost"
2026-11-20 10:00:16.000000       16  worker       paused          targets=a,b by=10.0.0.9:4001
2026-11-20 10:00:17.000000       17  worker       concurrency-set target=a concurrency=3 by=10.0.0.9:4001
`

func TestJournalLog(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	all := strings.SplitAfter(wholeLog, "\n")
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"all":              {nil, all},
		"job":              {[]string{"--job", "6"}, all[5:10]},
		"target":           {[]string{"--target=b"}, append([]string{all[0]}, append(append([]string{}, all[5:10]...), all[15])...)},
		"kinds":            {[]string{"--kind", "done, released"}, []string{all[4], all[9], all[14]}},
		"since, exactly":   {[]string{"--since", "2026-11-20 10:00:16"}, all[15:]},
		"since, ago":       {[]string{"--since=2h"}, all},
		"since, too late":  {[]string{"--since=1h"}, nil},
		"until, unix time": {[]string{"--until", fmt.Sprint(begin.Unix() + 3)}, all[:2]},
		"the newest two":   {[]string{"-n", "2"}, all[15:]},
		"newest of a job":  {[]string{"-n=1", "--job=5"}, all[4:5]},
		"no such job":      {[]string{"--job=99"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := jobctl{}.run(t, append([]string{"journal", "log", "--journal", dir}, test.args...)...)
			if want := (output{out: strings.Join(test.want, "")}); got != want {
				t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", got.code, got.err, got.out, want.out)
			}
		})
	}
}

func TestJournalLogAsJSON(t *testing.T) {
	t.Parallel()
	got := jobctl{}.run(t, "journal", "log", "--journal", oneDay(t), "--output", "json")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 0 || len(lines) != 17 {
		t.Fatalf("exit code %d, %d lines", got.code, len(lines))
	}
	var event map[string]any
	must.Do(t, json.Unmarshal([]byte(lines[4]), &event))
	payload, _ := json.Marshal(event["payload"])
	if event["seq"] != 5.0 || event["time"] != "2026-11-20T10:00:05Z" || event["job"] != 5.0 || event["kind"] != "done" ||
		len(event["hash"].(string)) != 64 || !strings.Contains(string(payload), `"code":7`) || event["stdout"] != nil {
		t.Errorf("event %v", event)
	}
}

func TestJournalLogFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	defer j.Close()
	appendAll(t, j, journal.Draft{Job: 1, Payload: journal.Ignored{Reason: "the first"}}, journal.Draft{Job: 1, Payload: journal.Ignored{Reason: "the second"}})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"journal", "log", "--follow", "-n", "1", "--kind=ignored", "--journal", dir}, surroundings{
			out: writer, err: t.Output(), now: time.Now, location: time.UTC,
		})
		writer.Close()
	}()
	expectLine(t, reader, "second")
	appendAll(t, j,
		journal.Draft{Job: 2, Payload: journal.Accepted{Target: "a", Token: "@tokentwoo"}},
		journal.Draft{Job: 1, Payload: journal.Ignored{Reason: "the third"}})
	expectLine(t, reader, "third")
	appendAll(t, j, journal.Draft{Job: 1, Payload: journal.Ignored{Reason: "the fourth"}})
	expectLine(t, reader, "fourth")
	cancel()
	check.Do(t, <-ended, "interrupted:")
}

// expectLine reads the next line, each of which is one write. What retention says of itself is passed over.
func expectLine(t *testing.T, r io.Reader, want string) {
	t.Helper()
	line := make([]byte, 4096)
	n, err := r.Read(line)
	for err == nil && strings.Contains(string(line[:n]), " retention ") {
		n, err = r.Read(line)
	}
	if err != nil || !strings.HasSuffix(string(line[:n]), want+"\"\n") {
		t.Fatalf("read %q, %v, want a line that ends in %q", line[:n], err, want)
	}
}

// Reading works, and changes nothing, while a worker writes.
func TestJournalWhileItIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	defer j.Close()
	appendAll(t, j, journal.Draft{Job: 1, Payload: journal.Ignored{Reason: "x"}})
	if got := (jobctl{}).run(t, "journal", "verify", "--journal", dir); got.code != 0 || !strings.HasPrefix(got.out, "verified: 1 events") {
		t.Errorf("%+v", got)
	}
	appendAll(t, j, journal.Draft{Job: 2, Payload: journal.Ignored{Reason: "y"}})
}

func TestJournalWrongUsage(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	for args, test := range map[string]struct {
		code int
		want string
	}{
		"log x":                     {2, `journal log: takes no arguments`},
		"log --job=x":               {2, `--job: "x" is not allowed; allowed: a whole number of 64 bits other than 0`},
		"log -n x":                  {2, `-n: "x" is not allowed; allowed: a whole number`},
		"log --follow=x":            {2, `--follow: "x" is not allowed; allowed: true and false`},
		"log --job=0":               {2, `--job: "0" is not allowed; allowed: a whole number of 64 bits other than 0`},
		"show 0":                    {2, `journal show: job "0" is not allowed; allowed: a whole number of 64 bits other than 0`},
		"show -9223372036854775809": {2, `job "-9223372036854775809" is not allowed`},
		"log -n=-1":                 {2, "is not allowed; allowed: a whole number of at least 0"},
		"log --kind=gone":           {2, `"gone" is not allowed; allowed: accepted, ignored`},
		"log --since=then":          {2, `"then" is not allowed; allowed: a time such as 2026-11-20 14:00`},
		"log --until=-5m":           {2, `"-5m" is not allowed`},
		"show":                      {2, "journal show: needs a job, as ID"},
		"show x":                    {2, `journal show: job "x" is not allowed`},
		"state x":                   {2, "journal state: takes no arguments"},
		"state --status=x":          {2, `"x" is not allowed; allowed: accepted, starting, running, done, released, ignored, retried, planned, conflict`},
		"state --at=2026-1":         {2, `"2026-1" is not allowed`},
		"verify x":                  {2, "journal verify: takes no arguments"},
	} {
		got := jobctl{}.run(t, append([]string{"journal", "--journal", dir}, strings.Fields(args)...)...)
		if got.code != test.code || !strings.Contains(got.err, test.want) {
			t.Errorf("%s: %+v, want exit code %d and %q", args, got, test.code, test.want)
		}
	}
	absent := filepath.Join(dir, "absent")
	if got := (jobctl{}).run(t, "journal", "verify", "--journal", absent); got.code != 1 || !strings.Contains(got.err, absent) {
		t.Errorf("absent folder: %+v", got)
	}
}

// "no row" was said of a row that exists, and whose update was refused.
func TestJournalConflictsTellTheRowAsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	row := &journal.Row{Target: "a", Status: "accepted", Owner: "@tokenfive"}
	appendAll(
		t, j,
		journal.Draft{Job: 5, Payload: journal.Conflict{Found: row, Wanted: "done", Reason: "CHECK fails", Token: "@tokenfive"}},
		journal.Draft{Job: 6, Payload: journal.Conflict{Wanted: "done", Reason: "error 1366"}}, // of an older version
		journal.Draft{Job: 7, Payload: journal.Conflict{Wanted: "running", Token: "@tokenseve"}},
	)
	must.Do(t, j.Close())
	for command, want := range map[string][]string{
		"conflicts": {"5    done     accepted  @tokenfive  CHECK fails", "6    done     not told  -           error 1366", "7    running  no row"},
		"log": {
			`found.target=a found.status=accepted found.owner=@tokenfive wanted=done reason="CHECK fails"`,
			`found="not told" wanted=done reason="error 1366"`, `found="no row" wanted=running`,
		},
	} {
		got := jobctl{}.run(t, "journal", command, "--journal", dir)
		for _, line := range want {
			if got.code != 0 || !strings.Contains(got.out, line) {
				t.Errorf("journal %s: exit code %d, no %q in\n%s", command, got.code, line, got.out)
			}
		}
	}
}

// journalOf makes a journal of a worker in a folder, with one job.
func journalOf(t *testing.T, dir, name string, job int64) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o700))
	j := openJournal(t, dir)
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: name, Pid: 1}},
		journal.Draft{Job: job, Payload: journal.Ignored{Reason: fmt.Sprint("reason ", job)}},
	)
	must.Do(t, j.Close())
}

// Two journals of one worker's name are two, and that is said.
func TestTwoJournalsOfOneName(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	one, two := filepath.Join(top, "a", "journal"), filepath.Join(top, "b", "journal")
	journalOf(t, one, "node-1", 1)
	journalOf(t, two, "node-1", 2)
	got := jobctl{}.run(t, "journal", "log", "--kind=ignored", "--journal", one, "--journal", two)
	if got.code != 0 || !strings.Contains(got.out, " node-1 ("+one+") ") || !strings.Contains(got.out, " node-1 ("+two+") ") ||
		got.err != "" {
		t.Errorf("%+v", got)
	}
	for _, again := range []string{one, one + "/", filepath.Join(one, "..", "journal")} {
		if got := (jobctl{}).run(t, "journal", "log", "--journal", one, "--journal", again); got.code != 2 || !strings.Contains(got.err, "is given twice") {
			t.Errorf("%+v", got)
		}
	}
}

// On a terminal a person reads that there is nothing; programs get the head of the table and no row.
func TestNothingFoundIsSaidOnATerminal(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	for args, want := range map[string]string{
		"log --job 99":            "no events\n",
		"state --status=conflict": "no jobs\n",
		"conflicts":               "no conflicts\n",
		"stats --until 1d":        "no events\n",
	} {
		args := append([]string{"journal"}, append(strings.Fields(args), "--journal", dir)...)
		if got := (jobctl{terminal: true}).run(t, args...); got != (output{out: want}) {
			t.Errorf("%q on a terminal: exit code %d, stderr %q, stdout %q; want %q", args, got.code, got.err, got.out, want)
		}
		if got := (jobctl{}).run(t, args...); got.code != 0 || strings.Contains(got.out, "no ") {
			t.Errorf("%q elsewhere: %+v", args, got)
		}
	}
}

func TestJournalThroughADaemon(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0f", 32)
	newest := history.AnchorAnswer{Seq: 7, Hash: hash}
	older := jobnet.Refusal("unknown request type: 'journal-anchor'")
	const explained = "it does not serve its journal, because it is an older jobd, or the original; its folder can be read with --journal DIR: "
	relay := func(data any, refusal string) any {
		return map[string]any{"workers": []any{map[string]any{"name": "w", "address": "a:1", "data": data, "error": refusal}}}
	}
	for name, test := range map[string]struct {
		args   string
		answer any
		want   output
	}{
		"a worker":       {"journal anchor", newest, output{out: "7 " + hash + "\n"}},
		"through master": {"--master journal anchor", relay(newest, ""), output{out: "7 " + hash + " w\n"}},
		"an older worker": {"journal anchor", older, output{
			code: 1, err: "jobctl: " + explained + "127.0.0.1:PORT: " + string(older) + "\n",
		}},
		"an older worker of a master": {"--master journal anchor", relay(nil, string(older)), output{
			code: 1, err: "jobctl: worker 'w': " + explained + string(older) + "\n",
		}},
		"another error": {"journal anchor", errors.New("secret"), output{
			code: 1, err: "jobctl: 127.0.0.1:PORT: internal error\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, "", map[string]any{"journal-anchor": test.answer})
			jobctl{}.expect(t, d, test.want, strings.Fields(test.args)...)
		})
	}
}

// shortened makes a journal of nine events, job n at second n, of which retention has left those from event 6 on.
func shortened(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	seconds := 0
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{
		Dir: dir, SegmentAge: time.Second, Retention: 3 * time.Second,
		Now: func() time.Time { return begin.Add(time.Duration(seconds) * time.Second) },
	}))(t)
	for n := range 9 {
		seconds++
		appendAll(t, j, journal.Draft{Job: int64(n + 1), Payload: journal.Ignored{Reason: fmt.Sprint("reason ", n+1)}})
	}
	j.SetPosition(9)
	must.Do(t, j.Maintain(t.Context()))
	must.Do(t, j.Close())
	return dir
}

// Who asks for what retention has removed is told what is kept; who asks for less, or for no time, is not bothered.
func TestJournalTellsWhatRetentionHasRemoved(t *testing.T) {
	t.Parallel()
	dir := shortened(t)
	const removed = "the history up to 2026-11-20T10:00:06.000000Z was removed by retention; it is kept from event 7 on"
	for args, want := range map[string]struct {
		code int
		says bool
		out  string // in what is printed; "": nothing is
	}{
		"log --since 2026-11-20T10:00:03": {0, true, "reason 7"},
		"log --since 2026-11-20T10:00:07": {0, false, "reason 7"},
		"log":                             {0, false, "reason 7"},
		"log --since 2026-11-20T09:00:00 --until 2026-11-20T10:00:05": {1, true, ""},
		"export --since 2026-11-20":                                   {0, true, "reason 7"},
		"stats --since 2026-11-20":                                    {0, true, "TARGET"},
		"state --at 2026-11-20T10:00:03":                              {1, true, ""},
		"state --at 2026-11-20T10:00:08":                              {0, false, "ignored"},
		"show 2":                                                      {4, true, ""},
		"show 8":                                                      {0, false, "reason 8"},
	} {
		got := jobctl{}.run(t, append(append([]string{"journal"}, strings.Fields(args)...), "--journal", dir)...)
		if got.code != want.code || strings.Contains(got.err, removed) != want.says || !strings.Contains(got.out, want.out) || want.out == "" && got.out != "" {
			t.Errorf("journal %s: %+v, want %+v", args, got, want)
		}
	}
}
