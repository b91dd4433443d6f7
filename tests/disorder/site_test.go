package disorder

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// site is a database, a master and some workers, all real, with the ways between them, and what is known of them.
type site struct {
	*trial
	choice  map[string]string
	server  *dbserver.Server
	db      *harness.Database
	oracle  harness.Oracle
	master  *master
	workers []*worker

	rows     []*row // in the order of their insertion
	open     []*transaction
	refusals []refusal
	clients  []*client
	windows  []window // in which targets were paused

	isReadOnly bool // the server
	crashed    bool // a runner was killed: outcomes may be unknown
	disturbed  bool // the table was out of reach of some worker, or is
}

// worker is a jobd with its ways to the table and to the master.
type worker struct {
	name     string
	settings harness.Settings
	config   string // the configuration file
	daemon   *harness.Daemon
	table    *way
	line     *way
	commits  harness.Link // behind table: it can break around a COMMIT
	release  func()       // lets a COMMIT pass that is held
	held     bool         // one may be held
	armed    bool         // it is to die at a point
	stopping bool
	gone     bool // it was stopped, and ended in order

	targets map[string]int  // what it serves and how many jobs at once, as far as is known
	most    map[string]int  // how many jobs at once it was ever allowed
	file    map[string]int  // what its configuration file says
	edited  bool            // its targets may be others than at first
	paused  map[string]bool // what it may have paused
	killed  int             // how often it was killed or stopped
}

// master is the jobd-master.
type master struct {
	settings harness.Settings
	config   string
	daemon   *harness.Daemon
	killed   int
}

// newSite makes a site and starts everything.
func newSite(t *trial, server *dbserver.Server, choice map[string]string) *site {
	s := &site{trial: t, choice: choice, server: server, oracle: harness.NewOracle(t, script)}
	s.db = harness.NewDatabaseOn(t, server, tableStatements...)
	s.db.Admin.SetMaxOpenConns(0)
	t.Cleanup(s.dropDatabase)
	s.makeMaster()
	for i := range number(choice["workers"]) {
		s.makeWorker("w" + strconv.Itoa(i+1))
	}
	for _, w := range s.workers {
		w.daemon.Ready(t)
	}
	s.awaitRegistered()
	return s
}

// rollBack ends what the application has open.
func (s *site) rollBack() {
	for _, t := range s.open {
		_ = t.tx.Rollback() // its connection may be gone
	}
	s.open = nil
}

// dropDatabase keeps the server small.
func (s *site) dropDatabase() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = s.db.Admin.ExecContext(ctx, "DROP DATABASE "+s.db.Name) // the server goes with the test
}

func (s *site) makeMaster() {
	s.master = &master{settings: harness.Settings{
		"host": "127.0.0.1", "port": harness.FreePort(s), "log_level_console": "debug",
		"poke_throttle_interval": s.choice["throttle"], "ping_interval": s.choice["pings"],
	}}
	s.master.config = s.write("master.conf", s.master.settings)
	s.launchMaster()
	s.master.daemon.Ready(s)
}

func (s *site) launchMaster() {
	s.master.daemon = harness.Launch(s, "jobd-master", s.master.config, s.master.settings.Addr())
}

// makeWorker makes a worker that polls only when somebody asks it to.
func (s *site) makeWorker(name string) {
	w := &worker{
		name: name, paused: map[string]bool{},
		commits: harness.NewLink(s, s.db.Addr), release: func() {}, line: newWay(s.trial, s.master.settings.Addr()),
	}
	w.table = newWay(s.trial, fmt.Sprint("127.0.0.1:", w.commits.Port()))
	slots := number(s.choice["slots"])
	w.targets = map[string]int{"a": slots, "b": slots}
	w.file = w.targets
	w.most = maps.Clone(w.targets)
	w.settings = s.db.Settings().With(harness.Settings{
		"mysql_port": w.table.port(), "mysql_fetch_limit": s.choice["fetch"], "poll_interval": "0",
		"host": "127.0.0.1", "port": harness.FreePort(s), "name": name,
		"master_host": "127.0.0.1", "master_port": w.line.port(), "master_reconnect_timeout": "1",
		"launcher": s.oracle.Command, "launcher.env.SITE_WORKER": name,
		"journal_dir": filepath.Join(s.dir, name), "log_level_console": "debug",
		"on_crash": s.choice["crash"], "on_stop": s.choice["stop"], "shutdown_timeout": "5", "launch_offline": s.choice["offline"],
	})
	w.settings = w.settings.With(harness.UsesAll)
	if prefetch := s.choice["prefetch"]; prefetch != "one" {
		w.settings["prefetch"] = prefetch
	}
	s.writeConfig(w)
	s.workers = append(s.workers, w)
	s.oracle.EndWith(s, w.settings)
	s.launch(w)
}

// writeConfig writes the worker's configuration file as its targets in the file say.
func (s *site) writeConfig(w *worker) {
	settings := w.settings.With(harness.Targets(w.file))
	for target := range w.file {
		settings = settings.With(harness.Terms(target, harness.Settings{"backoff": "1s"}))
	}
	w.config = s.write(w.name+".conf", settings)
}

func (s *site) write(name string, settings harness.Settings) string {
	file := filepath.Join(s.dir, name)
	must.Do(s, os.WriteFile(file, []byte(settings.String()), 0o600), "write %s", name)
	return file
}

// launch starts a worker's process; it serves what its file says, and nothing is paused.
func (s *site) launch(w *worker) {
	s.endWindows(w, "")
	program := "jobd"
	if w.armed {
		harness.Armed(s)
		program = "failpoints/jobd"
	}
	w.daemon = harness.Launch(s, program, w.config, w.settings.Addr())
	w.stopping, w.gone = false, false
	w.targets = maps.Clone(w.file)
	w.paused = map[string]bool{}
}

// worker is the worker of a name; the last one where a schedule names one more than there are.
func (s *site) worker(name string) *worker {
	for _, w := range s.workers {
		if w.name == name {
			return w
		}
	}
	return s.workers[len(s.workers)-1]
}

// up tells whether the worker is to answer. One that ended by itself violates a rule.
func (s *site) up(w *worker) bool {
	if w.daemon == nil || w.stopping {
		return false
	}
	if !w.daemon.Running() && w.armed && w.daemon.ExitCode(s) == -1 {
		w.daemon = nil
		w.killed++
		s.died++
		return false
	}
	if !w.daemon.Running() {
		s.violated("worker ended", "%s ended by itself: …%s", w.name, tail(w.daemon.Output(), 1500))
		w.daemon = nil
		return false
	}
	return true
}

func tail(text string, most int) string { return strings.TrimSpace(text[max(0, len(text)-most):]) }

// tableStatements make the database: the jobs table, in which an application allows NULL where it
// should not, and what makes the server refuse rows, see refuse.
var tableStatements = []string{
	strings.NewReplacer(
		"`target` char(16) NOT NULL", "`target` char(16) NULL",
		"`time_started` int(10) UNSIGNED NOT NULL", "`time_started` int(10) UNSIGNED NULL",
		"`time_finished` int(10) UNSIGNED NOT NULL", "`time_finished` int(10) UNSIGNED NULL",
	).Replace(harness.TimesTable),
	"CREATE TABLE refusals (modulus INT, remainder INT, errno INT, moment CHAR(8)) ENGINE=InnoDB",
	`CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW BEGIN
		DECLARE number INT;
		IF USER() NOT LIKE 'root@%' THEN
			SET number = (SELECT MAX(errno) FROM refusals WHERE NEW.id DIV 10 MOD modulus = remainder AND
				(moment = 'any' OR moment = 'claim' AND OLD.status IN ('waiting', 'manual', 'delayed') OR moment = 'end' AND NEW.status = 'done'));
			IF number = 1644 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused by the application';
			ELSEIF number = 1146 THEN SIGNAL SQLSTATE '42S02' SET MYSQL_ERRNO = 1146, MESSAGE_TEXT = "Table 'audit' doesn't exist";
			ELSEIF number = 1213 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'refused as a deadlock';
			ELSEIF number = 1205 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'refused as a lock wait';
			ELSEIF number = 4025 THEN SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 4025, MESSAGE_TEXT = 'CONSTRAINT refused failed';
			END IF;
		END IF;
	END`,
}

// lane is a database server of its own, on which one trial runs at a time: trials restart it.
type lane struct{ server *dbserver.Server }

// lanes are free when they are in the channel.
var lanes = make(chan *lane, harness.Size(2, 3))

// tally is what all trials of this process came to.
var tally struct {
	sync.Mutex
	trials  int
	slowest []time.Duration
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run1(m))
}

func run1(m *testing.M) (code int) {
	for range cap(lanes) {
		server, err := dbserver.Start(context.Background(), dbserver.Options{Args: []string{
			"--max-connections=500", "--max-connect-errors=1000000", "--innodb-lock-wait-timeout=1",
		}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
		lanes <- &lane{server}
	}
	code = m.Run()
	printTally()
	return code
}

// printTally tells how long the slowest wake-ups took.
func printTally() {
	tally.Lock()
	defer tally.Unlock()
	if tally.trials == 0 {
		return
	}
	slices.Sort(tally.slowest)
	n := len(tally.slowest)
	fmt.Printf("%d trials; the longest time in which nothing happened at a quiet point: median %s, 90 %% %s, most %s\n", tally.trials,
		tally.slowest[n/2].Round(time.Millisecond), tally.slowest[n*9/10].Round(time.Millisecond), tally.slowest[n-1].Round(time.Millisecond))
}

func count(t *trial) {
	tally.Lock()
	defer tally.Unlock()
	tally.trials++
	tally.slowest = append(tally.slowest, t.slowest)
}

// client is somebody who asked for manual rows to be run, and waits.
type client struct {
	via    string // the daemon
	rows   []*row
	began  int // how often the daemon had been killed by then
	done   chan struct{}
	answer harness.Jobs // once done is closed
	err    error        // errGone: the link ended
}

// clientTime is how long a client waits, in whatever state the site is.
const clientTime = 3 * time.Minute

// runManual inserts manual rows and has a client ask for them.
func (s *site) runManual(via, target string, n int, tempo string) {
	c := &client{via: via, rows: s.insert(target, n, tempo, manual), done: make(chan struct{})}
	addr, kind, data := s.request(via, c.rows)
	if addr == "" {
		return
	}
	c.began = s.deaths(via)
	s.clients = append(s.clients, c)
	go func() {
		defer close(c.done)
		var text json.RawMessage
		if text, c.err = exchange(addr, kind, data, clientTime); c.err == nil {
			c.err = json.Unmarshal(text, &c.answer)
		}
		s.Logf("client of %s for %v: %+v %v", via, data, c.answer, c.err)
	}()
}

// request is a run-manual as a worker or the master takes it; no address where it does not run.
func (s *site) request(via string, rows []*row) (addr, kind string, data any) {
	if via == "master" {
		jobs := []fields{}
		for _, r := range rows {
			jobs = append(jobs, fields{"id": r.id, "target": r.target})
		}
		if s.master.daemon == nil {
			return "", "", nil
		}
		return s.master.settings.Addr(), "run-manual", fields{"jobs": jobs}
	}
	ids := []int64{}
	for _, r := range rows {
		ids = append(ids, r.id)
	}
	w := s.worker(via)
	if !s.up(w) || !listens(w.settings.Addr()) {
		return "", "", nil
	}
	return w.settings.Addr(), "run-manual", fields{"ids": ids}
}

// listens reports whether a daemon that was started has come so far that clients can reach it.
func listens(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// deaths is how often a daemon was killed or stopped.
func (s *site) deaths(via string) int {
	if via == "master" {
		return s.master.killed
	}
	return s.worker(via).killed
}

// awaitClients waits until all clients are answered, once everything is well again.
func (s *site) awaitClients() {
	left := s.settle(func(table map[int64]record) string {
		for _, c := range s.clients {
			select {
			case <-c.done:
			default:
				return fmt.Sprintf("a client of %s that waits for %s", c.via, describe(c.rows, table))
			}
		}
		return ""
	})
	if left != "" {
		s.violated("client unanswered", "for %s nothing happened to %s", settleTime, left)
	}
}

// checkClients compares what clients were told with the rows; a row may come after the answer.
func (s *site) checkClients() {
	wrong := ""
	var about *client
	within(stopTime, func() bool {
		table := s.readTable()
		for _, about = range s.clients {
			if wrong = s.wrongAnswers(about, table); wrong != "" {
				return false
			}
		}
		return true
	})
	if wrong != "" {
		s.violated("client told wrong", "a client of %s: %s", about.via, wrong)
	}
}

// wrongAnswers tells what is wrong with what a client was told.
func (s *site) wrongAnswers(c *client, table map[int64]record) string {
	var no refused
	switch ended := s.deaths(c.via) > c.began; {
	case errors.Is(c.err, errGone) || errors.As(c.err, &no):
		if ended {
			return "" // it was killed, or was stopping
		}
		return fmt.Sprintf("%v, though the daemon was there all the time: %s", c.err, describe(c.rows, table))
	case c.err != nil:
		return c.err.Error()
	}
	for _, r := range c.rows {
		if wrong := s.wrongAnswer(c, r, table[r.id]); wrong != "" {
			return fmt.Sprintf("job %d: %s; its row: %s", r.id, wrong, table[r.id])
		}
	}
	return ""
}

// wrongAnswer compares what a client was told of a job with its row.
func (s *site) wrongAnswer(c *client, r *row, found record) string {
	if r.touched || r.cancelled {
		return ""
	}
	key := fmt.Sprint(r.id)
	job, ran := c.answer.Jobs[key]
	problem, failed := c.answer.Errors[key]
	switch {
	case ran == failed:
		return "told neither an outcome nor a reason, or both"
	case ran && (found.status != "done" || found.result != job.Result || found.code != codeText(job.Code)):
		return fmt.Sprintf("told %s", job)
	case failed && strings.Contains(problem, fmt.Sprintf("job %d not found", r.id)):
		return "told that there is none"
	case found.status == "ignored":
		return fmt.Sprintf("its row was changed, and it was told: %s", problem)
	case failed && strings.Contains(problem, "database") && !s.disturbed:
		return fmt.Sprintf("told of the database, which was there all the time: %s", problem)
	}
	return ""
}

func codeText(code *int) string {
	if code == nil {
		return "NULL"
	}
	return fmt.Sprint(*code)
}

func describe(rows []*row, table map[int64]record) string {
	var text []string
	for _, r := range rows {
		text = append(text, fmt.Sprintf("%d %s", r.id, table[r.id]))
	}
	return strings.Join(text, ", ")
}
