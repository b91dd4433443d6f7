package disorder

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// run is a trial from its beginning to its end.
func run(t *trial, lane *lane, schedule schedule) {
	s := newSite(t, lane.server, schedule.site)
	if t.Failed() {
		return
	}
	defer s.rollBack() // else the workers would stop only when they had waited for the rows
	for _, step := range schedule.steps {
		s.Logf("--- %s", step)
		verbNamed(step.verb).do(s, step.args)
		if t.Failed() {
			return
		}
	}
	s.Logf("--- heal")
	s.heal()
	if t.Failed() {
		return
	}
	s.awaitClients()
	s.settleAtTheEnd()
	s.judge()
}

// judge compares the table, the oracle, the journals and what clients were told.
func (s *site) judge() {
	s.checkClients()
	s.checkRows(s.readTable())
	s.checkStarts()
	s.checkPauses()
	s.checkSlots()
	s.awaitRegistered()
	for _, w := range s.workers {
		if s.up(w) {
			s.checkStatus(w)
			s.checkDiff(w)
		}
		s.checkJournal(w)
	}
	for _, w := range s.workers {
		s.checkStop(w)
	}
}

// checkRows compares rows with what their jobs do.
func (s *site) checkRows(table map[int64]record) {
	started, ended := map[int64]bool{}, s.oracle.Ended(s)
	for _, begun := range s.oracle.Starts(s) {
		started[begun.Job] = true
	}
	for _, r := range s.rows {
		found, exists := table[r.id]
		if exists == r.deleted {
			s.violated("rows", "row %d: it is there: %t, the application deleted it: %t", r.id, exists, r.deleted)
		}
		if found.status == "ignored" && started[r.id] && !r.touched && !s.crashed {
			s.violated("wrong outcome", "job %d was started, and its row is ignored: %s", r.id, found)
		}
		if found.status != "done" {
			continue
		}
		if wrong := s.wrongOutcome(r, found, ended[r.id]); wrong != "" {
			s.violated("wrong outcome", "job %d: %s: %s", r.id, wrong, found)
		}
	}
	if len(table) > len(s.rows) {
		s.violated("rows", "there are %d rows, and only %d were inserted", len(table), len(s.rows))
	}
}

// wrongOutcome tells what is wrong with a row that is done.
func (s *site) wrongOutcome(r *row, found record, ended bool) string {
	if found.result == "fail" && found.code == "NULL" && !r.cancelled {
		if !s.crashed {
			return "its outcome is not known, though no runner was killed"
		}
		return ""
	}
	if found.early && !r.touched {
		return "it started before it was due"
	}
	if r.cancelled {
		return ""
	}
	code, result := codeOf(r.id), "ok"
	if code != 0 {
		result = "fail"
	}
	switch {
	case found.result != result || found.code != fmt.Sprint(code):
		return fmt.Sprintf("it exits with %d", code)
	case found.sig != "":
		return "the owner's column is not empty"
	case found.stdout != fmt.Sprintf("out %d\n", r.id):
		return fmt.Sprintf("its output is %q", found.stdout)
	case !ended:
		return "its process never came to its end"
	}
	return ""
}

// checkStatus waits until the worker's table shows all that its journal has, and looks at what it says of itself.
func (s *site) checkStatus(w *worker) {
	var text json.RawMessage
	wrong := ""
	within(stopTime, func() bool {
		var err error
		if text, err = exchange(w.settings.Addr(), "status", nil, answerTime); err != nil {
			wrong = err.Error()
			return false
		}
		wrong = s.wrongStatus(text)
		return wrong == ""
	})
	if wrong != "" {
		s.violated("status", "%s: %s: %s", w.name, wrong, text)
	}
}

// wrongStatus tells what in a worker's status is not as it is when all is well.
func (s *site) wrongStatus(text []byte) string {
	var status struct {
		Targets map[string]struct {
			Paused              bool
			Concurrency, Length int
			Why                 string
		}
		Aside            []json.RawMessage
		JobPromisesCount int
		Journal          struct{ Events, Mirrored uint64 }
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return err.Error()
	}
	for name, target := range status.Targets {
		if target.Paused || target.Length > 0 || target.Why != "" || fmt.Sprint(target.Concurrency) != s.choice["slots"] {
			return fmt.Sprintf("target %s is not as it was at first", name)
		}
	}
	switch {
	case len(status.Targets) != 2:
		return "it does not serve a and b"
	case len(status.Aside) > 0:
		return "rows are set aside"
	case status.JobPromisesCount > 0:
		return "clients wait"
	case status.Journal.Events != status.Journal.Mirrored:
		return "the mirror is behind"
	}
	return ""
}

// touched are the rows that the application changed by hand.
func (s *site) touched() map[int64]bool {
	ids := map[int64]bool{}
	for _, r := range s.rows {
		ids[r.id] = r.touched
	}
	return ids
}

// checkDiff asks whether the rows say what the journal says, but for those that were changed by hand.
func (s *site) checkDiff(w *worker) {
	ids := s.touched()
	var wrong string
	within(stopTime, func() bool {
		wrong = ""
		output, err := s.jobctl("--host", "127.0.0.1", "--port", w.settings["port"], "--output", "json", "journal", "diff")
		if err != nil && !strings.Contains(output, "somebody else changed") {
			wrong = fmt.Sprintf("%v: %s", err, output)
		}
		for line := range strings.Lines(output) {
			var d difference
			if json.Unmarshal([]byte(line), &d) == nil && d.Job != 0 && !ids[d.Job] {
				wrong += line
			}
		}
		return wrong == ""
	})
	if wrong != "" {
		s.violated("diff", "%s: rows do not say what its journal says: %s", w.name, wrong)
	}
}

func (s *site) jobctl(args ...string) (string, error) {
	output, err := exec.Command(harness.Program(s, "jobctl"), args...).CombinedOutput()
	return string(output), err
}

// checkJournal verifies a worker's journal, and looks for conflicts about rows that nobody touched.
func (s *site) checkJournal(w *worker) {
	if output, err := s.jobctl("journal", "verify", "--journal", w.settings["journal_dir"]); err != nil {
		s.violated("journal", "%s: verify: %v: %s", w.name, err, output)
		return
	}
	reader, err := replay.Open(w.settings["journal_dir"])
	if err != nil {
		s.Fatalf("read the journal of %s: %v", w.name, err)
	}
	ids, cancelled, retried := s.touched(), map[int64]bool{}, map[int64]bool{}
	for _, r := range s.rows {
		cancelled[r.id], retried[r.id] = r.cancelled, r.retried
	}
	for e, err := range reader.Events(s.Context(), journal.Filter{Kinds: []journal.Kind{journal.KindConflict}}) {
		if err != nil {
			s.Fatalf("read the journal of %s: %v", w.name, err)
		}
		// A cancel that the table refuses leaves the row as it is, and a conflict says so.
		if c, _ := e.Payload.(journal.Conflict); !ids[e.Job] && !(cancelled[e.Job] && c.Wanted == journal.RowIgnored) && !retried[e.Job] {
			s.violated("conflict", "%s met a conflict about a row that nobody changed: job %d %+v", w.name, e.Job, e.Payload)
		}
	}
}

// checkStop stops a worker that has nothing to do.
func (s *site) checkStop(w *worker) {
	if !s.up(w) {
		return
	}
	output := w.daemon.Output()
	w.daemon.Signal(s, syscall.SIGTERM)
	begun := time.Now()
	if !within(stopTime, func() bool { return !w.daemon.Running() }) {
		s.violated("stop", "%s, idle, did not stop within %s", w.name, stopTime)
		return
	}
	if code := w.daemon.ExitCode(s); code != 0 {
		s.violated("stop", "%s, idle, ended with %d after %s: …%s", w.name, code, time.Since(begun), tail(output, 1500))
	}
	if found := panicked.FindString(w.daemon.Output()); found != "" {
		s.violated("panic", "%s: %s", w.name, found)
	}
}

var panicked = regexp.MustCompile(`(?m)^(panic|fatal error): .*$`)

// difference is a line of journal diff.
type difference struct {
	Job         int64
	Want, Found struct{ Status string }
}

// settleTime is how long nothing may happen at a quiet point while something is still missing. The
// promise is two seconds from the last thing that should have led to it; the rest is for a slow
// machine, and for links that are tried again less often the longer they were bad.
const settleTime = 10 * time.Second

// mostLook is for how long one look at the table counts: on a busy machine nothing happens for as long as
// that machine has no time for it, and the looks are as slow.
const mostLook = 100 * time.Millisecond

// record is a row as the table has it.
type record struct {
	target, status, result, code, sig, stdout, stderr string
	plannedAt                                         int64
	early                                             bool // it says that it started before it was due
}

func (r record) String() string {
	return fmt.Sprintf("{%s %s planned for %d result %s code %s sig %s stderr %.120q}", r.target, r.status, r.plannedAt, r.result, r.code, r.sig, r.stderr)
}

// table reads all rows.
func (s *site) readTable() map[int64]record {
	found := map[int64]record{}
	rows, err := s.db.Admin.Query("SELECT id, COALESCE(target, 'NULL'), status, COALESCE(result, 'NULL'), COALESCE(return_code, 'NULL'), " +
		"COALESCE(sig, ''), COALESCE(stdout, ''), COALESCE(stderr, ''), COALESCE(time_started < run_at, FALSE), planned_at FROM jobs")
	if err != nil {
		s.Fatalf("read the table: %v", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var r record
		if err := rows.Scan(&id, &r.target, &r.status, &r.result, &r.code, &r.sig, &r.stdout, &r.stderr, &r.early, &r.plannedAt); err != nil {
			s.Fatalf("read the table: %v", err)
		}
		found[id] = r
	}
	must.Do(s, rows.Err(), "read the table")
	return found
}

// settle waits until nothing is missing, and gives what still is when nothing has happened for too long.
func (s *site) settle(missing func(map[int64]record) string) string {
	last, left := "", ""
	looked, still := time.Now(), time.Duration(0)
	well := within(mostTime, func() bool {
		table := s.readTable()
		if left = missing(table); left == "" {
			return true
		}
		still += min(time.Since(looked), mostLook)
		looked = time.Now()
		if now := s.progress(left, table); now != last {
			last, still = now, 0
		}
		s.slowest = max(s.slowest, still)
		return s.ctx.Err() != nil || still > settleTime
	})
	if !well {
		return "things go on and on: " + left
	}
	return left
}

// progress changes with everything that happens, but for rows that recur unless something is missing of them.
func (s *site) progress(left string, table map[int64]record) string {
	starts := 0
	for _, r := range s.rows {
		if r.recurs {
			delete(table, r.id)
		} else {
			starts += len(s.oracle.Marks(s, r.id))
		}
	}
	return fmt.Sprint(left, table, starts)
}

// quiet is a quiet point in the midst: rows that are locked or refused, or whose target is paused, wait, and all
// others that somebody was asked to look for end. It needs processes and links that are well.
func (s *site) quiet() {
	if s.ailing() != "" {
		return
	}
	left := s.settle(func(table map[int64]record) string {
		var missing []*row
		for _, r := range s.rows {
			if s.mustEnd(r, table[r.id]) {
				missing = append(missing, r)
			}
		}
		return describe(missing, table)
	})
	if left != "" {
		s.violated("held up", "for %s nothing happened to rows that nothing holds up: %s\n    open: %s", settleTime, left, s.holdUps())
	}
}

// ailing names a process that does not run, or a link that is bad; "" where there is none. A worker
// that was stopped has given back what it had, unless it left its jobs to the runner.
func (s *site) ailing() string {
	if s.master.daemon == nil {
		return "master"
	}
	if s.isReadOnly {
		return "server"
	}
	for _, w := range s.workers {
		if w.armed || w.held || !w.table.good() || !w.line.good() {
			return w.name
		}
		if w.stopping {
			s.stopped(w, stopTime)
		}
		if gone := w.gone && s.choice["stop"] == "drain"; !gone && !s.up(w) {
			return w.name
		}
	}
	return ""
}

// mustEnd tells whether a row has to end though others are held up.
func (s *site) mustEnd(r *row, found record) bool {
	if r.hidden || r.deleted || r.manual || r.cancelled || r.recurs || r.attempts > 1 && found.status == delayed || found.status == "done" || found.target == "NULL" || s.locked(r) || s.refused(r) {
		return false
	}
	for _, w := range s.workers {
		if w.daemon != nil && w.targets[r.target] > 0 && !w.paused[r.target] && (r.hinted[all] || r.hinted[w.name]) {
			return true
		}
	}
	return false
}

func (s *site) locked(r *row) bool {
	return slices.ContainsFunc(s.open, func(t *transaction) bool { return slices.Contains(t.locked, r) })
}

func (s *site) refused(r *row) bool {
	return slices.ContainsFunc(s.refusals, func(f refusal) bool { return f.concerns(r) })
}

// holdUps describes what rightly holds up rows now.
func (s *site) holdUps() string {
	var text []string
	for _, t := range s.open {
		for _, r := range t.locked {
			text = append(text, fmt.Sprintf("row %d locked", r.id))
		}
	}
	for _, f := range s.refusals {
		text = append(text, fmt.Sprintf("%+v", f))
	}
	for _, w := range s.workers {
		text = append(text, fmt.Sprintf("%s serves %v, paused %v", w.name, w.targets, w.paused))
	}
	return strings.Join(text, ", ")
}
