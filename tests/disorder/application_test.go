package disorder

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"jobd/store/storetest/must"
)

const (
	waiting = "waiting"
	manual  = "manual"
	delayed = "delayed"
)

// row is a job as the application knows it.
type row struct {
	id        int64
	target    string          // as the workers spell it
	manual    bool            // run by clients only
	lives     int             // how often it was made waiting: that is how often it may be claimed
	hinted    map[string]bool // who was asked to look since it was committed: workers, or everybody (all)
	touched   bool            // the application changed it by hand: the journals differ, and may say conflict
	deleted   bool
	hidden    bool // its INSERT is not committed
	cancelled bool // a worker was asked to cancel it: it may be ignored, or end before its time
	retried   bool // a worker was asked to set it back
	recurs    bool // it comes back, and is never done
	far       bool // and not before years have passed
	attempts  int  // how many it has
	runs      int  // of one that recurs: how often it was started when everything was healed
}

// all stands for every worker that serves a target.
const all = "*"

// transaction is one of the application's that is open: rows that nobody sees yet, and rows that nobody else can lock.
type transaction struct {
	tx     *sql.Tx
	hidden []*row
	locked []*row
}

// refusal is a rule of the server's: it refuses changes of each row whose number has the remainder.
type refusal struct {
	errno              string
	moment             string
	modulus, remainder int
}

func (r refusal) concerns(row *row) bool { return int(row.id/10)%r.modulus == r.remainder }

// execer is a connection pool or a transaction.
type execer interface {
	Exec(query string, args ...any) (sql.Result, error)
}

// exec runs a statement and tells how many rows it changed; none where it met somebody's lock.
func (s *site) exec(on execer, statement string, args ...any) int {
	result, err := on.Exec(statement, args...)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && (refused.Number == 1205 || refused.Number == 1213) {
		return 0
	}
	if err != nil {
		s.Fatalf("the application: %.100s: %v", statement, err)
	}
	n, _ := result.RowsAffected() // never fails
	return int(n)
}

// period is how often rows recur, in seconds.
const period = 2

// newRows plans rows; their INSERT comes after. They may start from an SQL expression's time on.
func (s *site) newRows(target string, n int, tempo, status, runAt string) (added []*row, statement string) {
	return s.newTimed(target, n, tempo, status, runAt, "NULL", 1)
}

// newTimed is newRows with a schedule, an SQL expression, and attempts.
func (s *site) newTimed(target string, n int, tempo, status, runAt, schedule string, attempts int) (added []*row, statement string) {
	spelled := target
	if s.choice["spelling"] == "shouted" {
		spelled = strings.ToUpper(target)
	}
	limit := "NULL"
	if attempts > 1 {
		limit = strconv.Itoa(attempts)
	}
	var values []string
	for range n {
		r := &row{id: int64(len(s.rows)+1)*10 + tempos[tempo], target: target, manual: status == manual, lives: 1, hinted: map[string]bool{}, recurs: schedule != "NULL", far: schedule == inYears, attempts: attempts}
		s.rows, added = append(s.rows, r), append(added, r)
		values = append(values, fmt.Sprintf("(%d, '%s', UNIX_TIMESTAMP(), '%s', %s, %s, %s)", r.id, spelled, status, runAt, schedule, limit))
	}
	return added, "INSERT INTO jobs (id, target, time_created, status, run_at, schedule, max_attempts) VALUES " + strings.Join(values, ", ")
}

func (s *site) insert(target string, n int, tempo, status string) []*row {
	added, statement := s.newRows(target, n, tempo, status, "0")
	s.mustInsert(s.db.Admin, statement, n)
	return added
}

// insertLater inserts rows that are due in some seconds, and pokes for them now.
func (s *site) insertLater(target string, n, seconds int) {
	_, statement := s.newRows(target, n, "quick", delayed, fmt.Sprintf("UNIX_TIMESTAMP() + %d", seconds))
	s.mustInsert(s.db.Admin, statement, n)
	s.poke(target)
}

// recur inserts rows that recur, and pokes for them.
func (s *site) recur(target string, n int) {
	_, statement := s.newTimed(target, n, "quick", delayed, "0", fmt.Sprintf("'every %ds'", period), 2)
	s.mustInsert(s.db.Admin, statement, n)
	s.poke(target)
}

// inYears is a schedule that is planned when it is claimed, and then waits.
const inYears = "'yearly 02-29 12:00'"

// plan inserts rows that recur in years, and pokes for them.
func (s *site) plan(target string, n int) {
	_, statement := s.newTimed(target, n, "quick", delayed, "0", inYears, 1)
	s.mustInsert(s.db.Admin, statement, n)
	s.poke(target)
}

// persist inserts rows whose jobs are tried three times if they fail.
func (s *site) persist(target string, n int) {
	_, statement := s.newTimed(target, n, "quick", waiting, "0", "NULL", 3)
	s.mustInsert(s.db.Admin, statement, n)
	s.poke(target)
}

// mustInsert inserts rows that nobody else knows, so that nobody's lock is to be in their way.
func (s *site) mustInsert(on execer, statement string, n int) {
	if s.exec(on, statement) == n {
		return
	}
	var kind, name, status string
	_ = s.db.Admin.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status) // it says no more than that, then
	s.Logf("the locks: %s", status)
	s.Fatalf("the application could not insert %d rows", n)
}

// begin opens a transaction. With a stricter level SKIP LOCKED locks the gap behind a row that it skips.
func (s *site) begin() *transaction {
	tx := must.Get(s.db.Admin.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted}))(s)
	t := &transaction{tx: tx}
	s.open = append(s.open, t)
	return t
}

// insertLate inserts rows and pokes before the COMMIT, which comes some steps later.
func (s *site) insertLate(target string, n int) {
	t := s.begin()
	added, statement := s.newRows(target, n, "quick", waiting, "0")
	for _, r := range added {
		r.hidden = true
	}
	t.hidden = added
	s.mustInsert(t.tx, statement, n)
	s.poke(target)
}

// lock locks rows that nobody else has locked, as an application's open transaction does.
func (s *site) lock(nth, n int) {
	t := s.begin()
	for i := range n {
		if r := s.row(nth + i); r != nil {
			s.lockRow(t, r)
		}
	}
}

func (s *site) lockRow(t *transaction, r *row) {
	var id int64
	err := t.tx.QueryRow("SELECT id FROM jobs WHERE id = ? FOR UPDATE SKIP LOCKED", r.id).Scan(&id)
	switch {
	case err == nil:
		t.locked = append(t.locked, r)
	case !errors.Is(err, sql.ErrNoRows):
		s.Fatalf("the application locks row %d: %v", r.id, err)
	}
}

// insertLocked inserts rows, and has every second one locked before anybody is told of them.
func (s *site) insertLocked(target string, n int) {
	added := s.insert(target, n, "quick", waiting)
	t := s.begin()
	for i, r := range added {
		if i%2 == 0 {
			s.lockRow(t, r)
		}
	}
	s.poke(target)
}

func (s *site) commitOldest() { s.endOldest(func(t *transaction) bool { return len(t.hidden) > 0 }) }

func (s *site) unlockOldest() { s.endOldest(func(t *transaction) bool { return len(t.hidden) == 0 }) }

func (s *site) endOldest(of func(*transaction) bool) {
	i := slices.IndexFunc(s.open, of)
	if i < 0 {
		return
	}
	t := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	must.Do(s, t.tx.Commit(), "the application: commit")
	for _, r := range t.hidden {
		r.hidden = false
	}
}

// row is the n-th row, counted from the newest; nil where there is none.
func (s *site) row(nth int) *row {
	if nth >= len(s.rows) {
		return nil
	}
	return s.rows[len(s.rows)-1-nth]
}

// refuse has the server refuse changes of some rows from now on.
func (s *site) refuse(errno, moment string, modulus, remainder int) {
	r := refusal{errno, moment, modulus, remainder % modulus}
	s.refusals = append(s.refusals, r)
	s.exec(s.db.Admin, "INSERT INTO refusals VALUES (?, ?, ?, ?)", r.modulus, r.remainder, errno, moment)
}

// allow ends all refusals.
func (s *site) allow() {
	s.refusals = nil
	s.exec(s.db.Admin, "DELETE FROM refusals")
}

// null makes a column NULL, the target only of rows that are claimed already.
func (s *site) null(nth int, column string) {
	r := s.row(nth)
	if r == nil {
		return
	}
	where := ""
	if column == "target" {
		where = " AND status IN ('accepted', 'running', 'done')"
	}
	if s.exec(s.db.Admin, fmt.Sprintf("UPDATE jobs SET %s = NULL WHERE id = ?%s", column, where), r.id) > 0 {
		r.touched = true
	}
}

// reset makes a row waiting again by hand, whatever became of it.
func (s *site) reset(nth int) {
	r := s.row(nth)
	if r == nil {
		return
	}
	if s.exec(s.db.Admin, "UPDATE jobs SET status = 'waiting', result = NULL, return_code = NULL, sig = NULL, time_started = 0, time_finished = 0 "+
		"WHERE id = ? AND status IN ('accepted', 'running', 'done')", r.id) > 0 {
		r.touched, r.manual, r.hinted = true, false, map[string]bool{}
		r.lives++
	}
}

// delete removes a row that nobody has claimed.
func (s *site) delete(nth int) {
	r := s.row(nth)
	if r != nil && s.exec(s.db.Admin, "DELETE FROM jobs WHERE id = ? AND status = 'waiting'", r.id) > 0 {
		r.touched, r.deleted = true, true
		r.lives--
	}
}
