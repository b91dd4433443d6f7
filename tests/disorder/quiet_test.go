package disorder

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	early                                             bool // it says that it started before it was due
}

func (r record) String() string {
	return fmt.Sprintf("{%s %s result %s code %s sig %s stderr %.120q}", r.target, r.status, r.result, r.code, r.sig, r.stderr)
}

// table reads all rows.
func (s *site) readTable() map[int64]record {
	found := map[int64]record{}
	rows, err := s.db.Admin.Query("SELECT id, COALESCE(target, 'NULL'), status, COALESCE(result, 'NULL'), COALESCE(return_code, 'NULL'), " +
		"COALESCE(sig, ''), COALESCE(stdout, ''), COALESCE(stderr, ''), COALESCE(time_started < run_at, FALSE) FROM jobs")
	if err != nil {
		s.Fatalf("read the table: %v", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var r record
		if err := rows.Scan(&id, &r.target, &r.status, &r.result, &r.code, &r.sig, &r.stdout, &r.stderr, &r.early); err != nil {
			s.Fatalf("read the table: %v", err)
		}
		found[id] = r
	}
	if err := rows.Err(); err != nil {
		s.Fatalf("read the table: %v", err)
	}
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
		if now := fmt.Sprint(table, s.oracle.size()); now != last {
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
	for _, w := range s.workers {
		if !w.table.good() || !w.line.good() {
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
	if r.hidden || r.deleted || r.manual || r.cancelled || found.status == "done" || found.target == "NULL" || s.locked(r) || s.refused(r) {
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
