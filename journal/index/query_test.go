package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/store/storetest/must"
)

// filled is an index of random histories that answers.
func filled(t *testing.T, seed uint64) *Index {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: readtest.Ticking()})
	live(r, j, 120)
	for job := range int64(40) {
		code, target := int(job%4), fmt.Sprint("t", job%3)
		journaltest.MustAppend(t, j,
			journal.Draft{Job: 100 + job, Payload: journal.Accepted{Target: target, Token: "@"}},
			journal.Draft{Job: 100 + job, Payload: journal.Running{Attempt: 1}},
			journal.Draft{Job: 100 + job, Payload: journal.Started{Pid: 1}},
			journal.Draft{Job: 100 + job, Payload: journal.Done{
				Result: map[bool]string{true: "ok", false: "fail"}[code == 0], Code: &code,
				Stderr: journal.Output{Kept: fmt.Appendf(nil, "Job%d said: connection to db%d timed_out\n", job, job%5)},
			}})
	}
	x := New(Config{Dir: j.Dir, Log: j})
	bring(t, x, nil)
	x.readers = pool(x.path, "ro", 2)
	t.Cleanup(func() { _ = x.readers.Close() })
	return x
}

// Whatever is asked for: the pages together are what somebody finds who looks at all jobs, in the same order.
func TestPagesAreWhatALookAtAllJobsFinds(t *testing.T) {
	t.Parallel()
	x := filled(t, 1)
	all, next, err := x.Jobs(t.Context(), Query{Most: 1000})
	if err != nil || next != (Key{}) || len(all) < 45 {
		t.Fatalf("%d jobs, next %v, %v", len(all), next, err)
	}
	failures, next, err := x.Jobs(t.Context(), Query{Most: 1000, Failures: true})
	if err != nil || next != (Key{}) || len(failures) < 30 {
		t.Fatalf("%d failures, next %v, %v", len(failures), next, err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 400 {
		q := Query{Status: journal.Status(pick("", "", "", "done", "ignored", "accepted", "retried")), Result: pick("", "", "ok", "fail"), Most: 1 + r.IntN(20)}
		if n := r.IntN(4); n > 0 {
			q.Targets = []string{"t0", "t1", "none"}[:n]
		}
		if r.IntN(4) == 0 {
			q.Codes = []int{r.IntN(4), 9}
		}
		if r.IntN(3) == 0 {
			q.Since = time.UnixMicro(all[r.IntN(len(all))].At)
		}
		if r.IntN(3) == 0 {
			q.Until = time.UnixMicro(all[r.IntN(len(all))].At)
		}
		of := all
		if r.IntN(4) == 0 {
			q.Failures, q.Status, q.Result, q.Codes, of = true, "", "", nil, failures
		}
		var want []int64
		for _, job := range of {
			if (q.Targets == nil || slices.Contains(q.Targets, job.Target)) && (q.Status == "" || job.Status == q.Status) &&
				(q.Result == "" || job.Result == q.Result) && (q.Codes == nil || job.Code != nil && slices.Contains(q.Codes, *job.Code)) &&
				(q.Since.IsZero() || job.At >= q.Since.UnixMicro()) && (q.Until.IsZero() || job.At < q.Until.UnixMicro()) {
				want = append(want, job.ID)
			}
		}
		var got []int64
		for page, first := q, true; first || page.Before != (Key{}); first = false {
			jobs, next, err := x.Jobs(t.Context(), page)
			if err != nil || len(jobs) > q.Most {
				t.Fatalf("%+v: %d jobs, %v", page, len(jobs), err)
			}
			for _, job := range jobs {
				got = append(got, job.ID)
			}
			page.Before = next
		}
		must.Elements(t, got, want, "%+v", q)
	}
}

// Words are found whatever their case and place, beginnings too, and nothing in a text is an operator.
func TestWords(t *testing.T) {
	t.Parallel()
	x := filled(t, 2)
	for text, want := range map[string]int{
		"connection": 40, "CONNECTION db3": 8, "job7": 1, "job7 db3": 0, "conn*": 40, "job1*": 11, "timed_out": 40, "timed out": 40,
		`"timed" OR NOT job7`: 0, "db3 -job7": 0, "co*": 0, "t1": 13, "out said": 40, "nothing": 0, "job7) (": 1, "text:job7": 0, "job7^2": 0,
	} {
		jobs, next, err := x.Jobs(t.Context(), Query{Text: text, Most: 100, Since: time.Unix(1, 0)})
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return j.ID < 100 })
		if err != nil || len(jobs) != want || next != (Key{}) {
			t.Errorf("%s: %d jobs, want %d; next %v, %v", text, len(jobs), want, next, err)
		}
	}
	if _, _, err := x.Jobs(t.Context(), Query{Text: "*-+", Most: 1}); err != ErrWords {
		t.Errorf("without a word: %v", err)
	}
	if page, _, err := x.Jobs(t.Context(), Query{Text: "connection", Result: "fail", Targets: []string{"t1"}, Most: 100}); err != nil || len(page) != 10 {
		t.Errorf("with other filters: %d, %v", len(page), err)
	}
}

// Every query walks an index, and sorts nothing but the rows of its page.
func TestEachQueryUsesAnIndex(t *testing.T) {
	t.Parallel()
	x := filled(t, 4)
	many := strings.Split(strings.Repeat("t ", 50), " ")
	for _, q := range []Query{
		{},
		{Targets: []string{"a"}},
		{Targets: []string{"a", "b"}, Result: "fail"},
		{Targets: many},
		{Status: "done"},
		{Result: "fail"},
		{Codes: []int{1}},
		{Codes: []int{1, 2}, Targets: []string{"a"}},
		{Codes: []int{0}},
		{Text: "a"},
		{Text: "abc*", Targets: many, Codes: []int{3}},
		{Failures: true},
		{Failures: true, Targets: []string{"a"}},
		{Failures: true, Targets: many},
		{Failures: true, Targets: append(many, many...)},
	} {
		w := &walk{db: x.readers, Query: q, states: q.states()}
		if q.Text != "" {
			w.words = match(q.Text)
		}
		text, args := w.statement(1, 1000, 50)
		rows, err := x.readers.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
		var plan []string
		err = each(rows, err, func() error {
			var a, b, c int
			var line string
			err := rows.Scan(&a, &b, &c, &line)
			plan = append(plan, line)
			return err
		})
		whole := strings.Join(plan, "; ")
		if err != nil || strings.Contains(whole, "SCAN jobs") || strings.Contains(whole, "SCAN failures") || strings.Count(whole, "TEMP B-TREE") > 0 {
			t.Errorf("%+v: %v, %s", q, err, whole)
		}
	}
}

// The steps are those of the events' times, and old ones go.
func TestRates(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenTest(t, t.TempDir())
	base := readtest.Base
	x := New(Config{Dir: j.Dir, Log: j})
	for minute := range 8 * 24 * 3 {
		j.At(base.Add(time.Duration(minute) * 20 * time.Minute))
		if minute%20 == 0 {
			lives(t, j, int64(3*minute+1), int64(3*minute+3))
		}
	}
	bring(t, x, nil)
	x.readers = pool(x.path, "ro", 1)
	defer x.readers.Close()
	begin := base.Unix()
	c := must.Get(x.Rates(t.Context(), 3600, begin, 8*24, []string{"t", "other"}))(t)
	total := must.Get(x.Rates(t.Context(), 3600, begin, 8*24, nil))(t)
	if c.Started[0] != 0 || !slices.Equal(c.Started, total.Started) || !slices.Equal(c.Started, c.Ended) || slices.Max(c.Failed) != 0 {
		t.Errorf("%+v, all %+v", c, total)
	}
	var kept int64
	for _, n := range c.Ended {
		kept += n
	}
	if kept < 3*25 || kept > 3*27 { // a week and an hour
		t.Errorf("%d kept", kept)
	}
	names, err := x.Targets(t.Context())
	if err != nil || !slices.Equal(names, []string{"t"}) {
		t.Errorf("targets %q, %v", names, err)
	}
}

// FuzzText: whatever somebody looks for is words, and finds a job that wrote it.
func FuzzText(f *testing.F) {
	for _, text := range []string{"a", `"`, "AND OR NOT", "a*", "a^b", "x:y", "\x00", "ünï", "日本", "a\u0301", "İ", "\xff\xfe", strings.Repeat("é", 50), "NEAR(a b)", "{a b}:c", "-a +b", "K"} {
		f.Add(text)
	}
	dir := f.TempDir()
	db, _, err := open(f.Context(), dir+"/index.db")
	must.Do(f, err)
	f.Cleanup(func() { db.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		query := match(text)
		if query == "" {
			return
		}
		words := wordsOf("", &journal.Done{Stdout: journal.Output{Kept: []byte(text)}})
		if len(text) > tailBytes || strings.Contains(text, "\x1b") {
			words = wordsOf(text, &journal.Done{})
		}
		_ = must.Get(db.ExecContext(t.Context(), `INSERT INTO words (rowid, text) VALUES (1, ?)`, words))(t)
		found := 0
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM words WHERE words MATCH ?`, query).Scan(&found); err != nil || found != 1 {
			t.Errorf("%q, as %s: %d found in %q, %v", text, query, found, words, err)
		}
		_ = must.Get(db.ExecContext(t.Context(), `DELETE FROM words WHERE rowid = 1`))(t)
	})
}
