package disorder

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/tests/harness"
)

// answerTime is how long any request but run-manual may take: 10 s, and the rest is for a busy machine.
const answerTime = 30 * time.Second

// errGone: there is nobody to ask, or the link ended before the answer.
var errGone = errors.New("nobody answers: the link ended")

// refused is what a daemon answered instead of data.
type refused string

func (r refused) Error() string { return string(r) }

// exchange sends one request on a link of its own and waits for its answer.
func exchange(addr, kind string, data any, patience time.Duration) (json.RawMessage, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, errGone
	}
	defer conn.Close()
	request, err := json.Marshal([]any{0, map[string]any{"no": 1, "type": kind, "data": data}})
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(append(request, harness.EOT)); err != nil {
		return nil, errGone
	}
	reader := bufio.NewReader(conn)
	for {
		frame, err := reader.ReadString(harness.EOT)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("no answer within %s", patience)
		case err != nil:
			return nil, errGone
		}
		var no int
		var response harness.Response
		parts := []any{&no, &response}
		if err := json.Unmarshal([]byte(strings.TrimSuffix(frame, string(rune(harness.EOT)))), &parts); err != nil {
			return nil, fmt.Errorf("the answer is %.200q: %w", frame, err)
		}
		if no != 1 || response.No != 1 {
			continue // a ping
		}
		if response.Error != "" {
			return nil, refused(response.Error)
		}
		return response.Data, nil
	}
}

// ask asks a daemon and tells whether it did what it was asked for.
func (s *site) ask(addr, kind string, data any) bool {
	begun := time.Now()
	_, err := exchange(addr, kind, data, answerTime)
	var no refused
	switch {
	case err == nil:
		s.Logf("%s %v: ok after %s", kind, data, time.Since(begun))
		return true
	case errors.Is(err, errGone) || errors.As(err, &no):
		s.Logf("%s %v: %v", kind, data, err)
	default:
		s.violated("request unanswered", "%s %v: %v", kind, data, err)
	}
	return false
}

// askWorker asks a worker that is up.
func (s *site) askWorker(w *worker, kind string, data any) bool {
	return s.up(w) && s.ask(w.settings.Addr(), kind, data)
}

// askMaster asks the master where it is up.
func (s *site) askMaster(kind string, data any) bool {
	if s.master.daemon == nil {
		return false
	}
	if !s.master.daemon.Running() {
		s.violated("master ended", "…%s", tail(s.master.daemon.Output(), 1500))
		s.master.daemon = nil
		return false
	}
	return s.ask(s.master.settings.Addr(), kind, data)
}

// verb is one sort of step.
type verb struct {
	name   string
	weight int      // how often it is drawn, in comparison
	args   []string // their sorts, see argValues
	do     func(s *site, args []string)
}

// verbs is what can happen at a site, by who does it.
var verbs []verb

func init() { // the steps refer to the table
	verbs = []verb{
		// The application: with the poke that follows its COMMIT, and without.
		{"insert", 14, []string{"target", "few", "tempo"}, func(s *site, a []string) {
			s.insert(a[0], number(a[1]), a[2], waiting)
			s.poke(a[0])
		}},
		{"slip", 4, []string{"target", "few", "tempo"}, func(s *site, a []string) { s.insert(a[0], number(a[1]), a[2], waiting) }},
		{"later", 4, []string{"target", "few", "seconds"}, func(s *site, a []string) { s.insertLater(a[0], number(a[1]), number(a[2])) }},
		{"recur", 3, []string{"target", "few"}, func(s *site, a []string) { s.recur(a[0], number(a[1])) }},
		{"plan", 1, []string{"target", "few"}, func(s *site, a []string) { s.plan(a[0], number(a[1])) }},
		{"persist", 3, []string{"target", "few"}, func(s *site, a []string) { s.persist(a[0], number(a[1])) }},
		{"late", 4, []string{"target", "few"}, func(s *site, a []string) { s.insertLate(a[0], number(a[1])) }},
		{"commit", 2, nil, func(s *site, _ []string) { s.commitOldest() }},
		{"lock", 5, []string{"row", "few"}, func(s *site, a []string) { s.lock(number(a[0]), number(a[1])) }},
		{"insert-locked", 4, []string{"target", "few"}, func(s *site, a []string) { s.insertLocked(a[0], number(a[1])) }},
		{"unlock", 2, nil, func(s *site, _ []string) { s.unlockOldest() }},
		{"refuse", 4, []string{"errno", "moment", "mod", "rest"}, func(s *site, a []string) {
			s.refuse(a[0], a[1], number(a[2]), number(a[3]))
		}},
		{"allow", 2, nil, func(s *site, _ []string) { s.allow() }},
		{"null", 2, []string{"row", "column"}, func(s *site, a []string) { s.null(number(a[0]), a[1]) }},
		{"reset", 2, []string{"row"}, func(s *site, a []string) { s.reset(number(a[0])) }},
		{"delete", 1, []string{"row"}, func(s *site, a []string) { s.delete(number(a[0])) }},

		// Clients and operators.
		{"poke", 4, []string{"target"}, func(s *site, a []string) { s.poke(a[0]) }},
		{"poll", 3, []string{"worker"}, func(s *site, a []string) { s.poll(s.worker(a[0])) }},
		{"manual", 5, []string{"server", "target", "few", "tempo"}, func(s *site, a []string) {
			s.runManual(a[0], a[1], number(a[2]), a[3])
		}},
		{"cancel", 3, []string{"worker", "row"}, func(s *site, a []string) { s.cancel(s.worker(a[0]), number(a[1])) }},
		{"retry", 3, []string{"worker", "row", "few"}, func(s *site, a []string) { s.retry(s.worker(a[0]), number(a[1]), number(a[2])) }},
		{"pause", 5, []string{"worker", "target"}, func(s *site, a []string) { s.pause(s.worker(a[0]), a[1]) }},
		{"continue", 3, []string{"worker", "target"}, func(s *site, a []string) { s.resume(s.worker(a[0]), a[1]) }},
		{"pause-all", 1, []string{"target"}, func(s *site, a []string) { s.pauseAll(a[0]) }},
		{"continue-all", 1, []string{"target"}, func(s *site, a []string) { s.continueAll(a[0]) }},
		{"add", 2, []string{"worker", "target", "slots"}, func(s *site, a []string) { s.addTarget(s.worker(a[0]), a[1], number(a[2])) }},
		{"remove", 2, []string{"worker", "target"}, func(s *site, a []string) { s.removeTarget(s.worker(a[0]), a[1]) }},
		{"slots", 2, []string{"worker", "target", "slots"}, func(s *site, a []string) { s.setSlots(s.worker(a[0]), a[1], number(a[2])) }},
		{"reload", 3, []string{"worker", "set", "slots"}, func(s *site, a []string) { s.reload(s.worker(a[0]), a[1], number(a[2])) }},
		{"stop", 4, []string{"worker"}, func(s *site, a []string) { s.stop(s.worker(a[0])) }},
		{"start", 4, []string{"worker"}, func(s *site, a []string) { s.start(s.worker(a[0])) }},

		// What nobody wanted.
		{"kill", 5, []string{"worker"}, func(s *site, a []string) { s.kill(s.worker(a[0])) }},
		{"die-at", 3, []string{"worker", "point", "nth"}, func(s *site, a []string) { s.dieAt(s.worker(a[0]), a[1], number(a[2])) }},
		{"crash", 1, []string{"worker"}, func(s *site, a []string) { s.crash(s.worker(a[0])) }},
		{"kill-runner", 2, []string{"worker"}, func(s *site, a []string) { s.killRunner(s.worker(a[0])) }},
		{"kill-master", 2, nil, func(s *site, _ []string) { s.killMaster() }},
		{"start-master", 2, nil, func(s *site, _ []string) { s.startMaster() }},
		{"cut-table", 3, []string{"worker"}, func(s *site, a []string) { s.spoilt(a[0]).cut() }},
		{"freeze-table", 3, []string{"worker"}, func(s *site, a []string) { s.spoilt(a[0]).hold() }},
		{"deafen-table", 1, []string{"worker"}, func(s *site, a []string) { s.spoilt(a[0]).deafen(both) }},
		{"break-commit", 3, []string{"worker", "commit"}, func(s *site, a []string) { s.breakCommit(s.worker(a[0]), a[1]) }},
		{"read-only", 1, nil, func(s *site, _ []string) { s.readOnly(1) }},
		{"read-write", 1, nil, func(s *site, _ []string) { s.readOnly(0) }},
		{"heal-table", 3, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).table.heal() }},
		{"cut-line", 2, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).line.cut() }},
		{"deafen-line", 3, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).line.deafen(answers) }},
		{"heal-line", 2, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).line.heal() }},
		{"restart-server", 2, nil, func(s *site, _ []string) { s.restartServer() }},

		{"wait", 10, []string{"ms"}, func(_ *site, a []string) { <-time.After(time.Duration(number(a[0])) * time.Millisecond) }},
		{"quiet", 4, nil, func(s *site, _ []string) { s.quiet() }},
	}
}

func verbNamed(name string) *verb {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		return nil
	}
	return &verbs[i]
}

// number reads an argument that was checked.
func number(arg string) int {
	n, err := strconv.Atoi(arg)
	if err != nil {
		panic(err)
	}
	return n
}

// fixedSeeds are tried each time.
var fixedSeeds = []uint64{1, 2, 3}

// recorded are schedules that violated a rule once, as small as they could be made.
var recorded = []struct{ name, text string }{
	{
		"a job whose row is locked before it is shown as running keeps no slot",
		"slots = 1; pause w2 a; insert a 2 long; wait 300; continue w2 a; lock 0 1; wait 1000; insert a 3 quick; quiet",
	},
	{"a row that could not be ignored", "refuse 1644 claim 1 0; manual w1 c 1 quick; wait 1000"},
	{"nothing odd", "insert a 3 quick; insert b 2 short; manual master a 2 quick; manual w1 b 1 quick; quiet; stop w1; start w1"},

	// Rows that are due later, and jobs that are cancelled.
	{"due while the table is away", "later a 4 2; cut-table w1; cut-table w2; wait 1000; wait 1000; heal-table w1; heal-table w2; quiet"},
	{"due while no worker runs", "later a 4 1; kill w1; stop w2; wait 1000; start w1; start w2"},
	{"cancelled while they are claimed and run", "slots = 1; insert a 6 long; wait 100; cancel w1 0; cancel w2 1; cancel w1 4; cancel w2 5; kill w1; cancel w2 3; start w1; quiet"},
	{"cancelled before they are due", "later b 3 2; cancel w1 0; kill w2; cancel w1 1; start w2; quiet"},

	// Killed at each point of a job's way, of a run that comes back, and of a retry, over and over.
	{"killed while it claims", "workers = 1; slots = 4; die-at w1 claim-selected 1; insert a 6 short; start w1; die-at w1 accepted-appended 3; insert b 6 short; start w1; " +
		"die-at w1 commit-sent 1; insert a 6 quick; start w1; die-at w1 commit-answered 1; insert b 4 quick; insert a 4 quick; start w1; quiet"},
	{"killed while it starts jobs", "workers = 1; slots = 1; prefetch = 3; die-at w1 running-appended 2; insert a 4 short; start w1; die-at w1 running-mirrored 2; insert b 4 short; start w1; " +
		"die-at w1 start-asking 3; insert a 4 quick; start w1; die-at w1 start-asked 2; insert b 4 quick; start w1; quiet"},
	{"killed when jobs have started", "workers = 1; slots = 4; die-at w1 started 3; insert a 6 short; start w1; die-at w1 started-appended 3; insert b 6 quick; start w1; " +
		"die-at w1 exit-seen 3; insert a 6 short; start w1; die-at w1 checkpoint 1; insert b 3 quick; start w1; quiet"},
	{"killed when jobs have ended", "workers = 1; slots = 4; die-at w1 done-appended 3; insert a 6 quick; start w1; die-at w1 forgotten 3; insert b 6 short; start w1; " +
		"die-at w1 update-sent 2; insert a 6 quick; start w1; die-at w1 done-mirrored 3; insert b 6 quick; start w1; quiet"},
	{"killed at runs that come back", "workers = 1; slots = 4; recur a 4; persist b 4; die-at w1 claim-selected 2; start w1; die-at w1 commit-answered 2; start w1; die-at w1 started 3; start w1; " +
		"die-at w1 done-appended 2; start w1; die-at w1 delayed-mirrored 3; start w1; die-at w1 update-sent 2; start w1"},
	{"killed while it plans", "workers = 1; die-at w1 planned-appended 1; plan a 4; start w1; kill w1; insert b 2 quick; start w1"},
	{"killed with the runner, and the schedule goes on", "crash = requeue; recur a 4; persist a 4; wait 1000; crash w1; wait 300; start w1; crash w2; start w2; wait 1000"},
	{"killed at steps of a retry", "workers = 1; slots = 4; insert a 6 quick; quiet; die-at w1 retry-selected 1; retry w1 0 4; start w1; die-at w1 retried-appended 1; retry w1 2 4; start w1; " +
		"die-at w1 retry-sent 1; retry w1 0 4; start w1; quiet; die-at w1 retry-answered 1; retry w1 1 4; start w1; quiet; retry w1 0 6; quiet"},
	{"crashed with all that runs, which is not run again", "insert a 4 long; insert b 4 long; wait 300; crash w1; crash w2; start w1; start w2; insert a 3 quick; quiet"},
	{"killed while it launches offline", "workers = 1; offline = run; prefetch = 3; insert a 6 short; wait 20; cut-table w1; wait 20; kill w1; start w1; wait 100; heal-table w1; quiet; " +
		"insert a 6 short; wait 20; cut-table w1; wait 100; kill w1; start w1; wait 20; heal-table w1; quiet"},
	{"links that break at a COMMIT", "workers = 1; break-commit w1 unsent; insert a 3 quick; quiet; break-commit w1 unanswered; insert a 3 quick; quiet; break-commit w1 held; insert a 3 quick; wait 300; " +
		"break-commit w1 unanswered; insert b 3 short; wait 100; break-commit w1 held; insert a 3 quick; wait 20; break-commit w1 unsent; quiet"},
	{"a server that is read-only", "insert a 6 short; insert a 6 quick; read-only; wait 1000; insert b 4 quick; wait 1000; read-write; quiet"},

	// Wake-ups.
	{"locked while it is poked for", "insert-locked a 4; wait 300; quiet"},
	{"locked behind a small window", "fetch = 1; prefetch = 0; insert-locked a 4; wait 300; quiet"},
	{"poked before the commit", "late a 3; wait 300; commit; poke a; quiet"},
	{"given back by a worker that stops", "slots = 1; prefetch = 3; pause w2 a; insert a 4 long; wait 300; continue w2 a; stop w1; quiet"},
	{"given back by a pause", "slots = 1; prefetch = 3; insert a 6 long; wait 100; pause w1 a; quiet"},
	{"stopped while the table is away", "slots = 1; prefetch = 3; insert a 6 long; wait 100; cut-table w1; stop w1; wait 300; heal-table w1; start w1"},
	{"inserted while the master is down", "kill-master; insert a 3 quick; start-master; quiet"},
	{"poked over deaf lines", "deafen-line w1; deafen-line w2; insert a 3 quick; wait 300"},
	{"taken away and given again while busy", "slots = 1; insert a 6 short; wait 100; reload w1 b 1; reload w1 ab 1; wait 300; quiet"},
	{"killed behind a frozen link", "freeze-table w1; insert a 4 short; wait 300; kill w1; start w1; wait 300"},
	{"spelled otherwise", "spelling = shouted; pause w1 a; insert a 3 quick; insert b 3 quick; manual w2 a 2 quick; quiet"},
	{"eight kills", "workers = 3; insert a 6 short; kill w1; insert a 6 short; start w1; kill w2; insert b 6 short; kill w1; start w2; kill w3; start w1; start w3; quiet"},

	// Pauses.
	{"paused while the table is frozen", "slots = 1; prefetch = 3; insert a 6 short; wait 100; freeze-table w1; wait 300; pause w1 a; wait 1000; heal-table w1; wait 300"},

	// One row holds up no other.
	{"refused when claimed", "refuse 4025 claim 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused at its end", "refuse 4025 end 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused with 1146", "refuse 1146 any 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused as a deadlock", "refuse 1213 any 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused as a lock wait", "refuse 1205 any 3 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"locked while it runs", "insert a 4 short; wait 20; lock 0 2; insert b 4 quick; quiet; insert a 2 quick; quiet"},
	{"locked while clients wait", "manual w1 a 2 long; wait 300; lock 0 2; wait 1000; insert a 3 quick; insert b 3 quick; quiet"},
	{"no time of its end", "insert a 2 long; wait 300; null 0 time_finished; null 1 time_started; insert a 3 quick; quiet; kill w1; start w1"},
	{"no target any more", "insert a 2 long; wait 300; null 0 target; insert a 3 quick; quiet; kill w1; start w1"},

	// Old knowledge.
	{"reset while it runs, and the server restarted", "insert a 2 long; wait 300; reset 0; poke a; restart-server; wait 300; quiet"},
	{"asked for over a deaf line", "deafen-line w1; deafen-line w2; manual master a 2 quick; wait 300"},
	{"registered a second time", "deafen-line w1; wait 100; heal-line w1; insert a 2 quick; manual master a 2 quick; quiet"},

	// Larger ones, which were drawn.
	{
		"drawn once, as seed 2221",
		"prefetch = 0; fetch = 1; pings = 1; stop = handover; spelling = shouted; insert-locked b 4; " +
			"kill-runner w3; deafen-line w1; insert a 6 quick; insert a 3 quick; deafen-line w1; reset 10; " +
			"lock 1 1; refuse 1644 claim 1 0; insert a 3 short; deafen-line w3; manual w2 c 1 quick; unlock; " +
			"insert b 4 quick; kill w1",
	},
	{
		"drawn once, as seed 4142",
		"prefetch = 0; fetch = 2; crash = requeue; pings = 1; spelling = shouted; refuse 4025 any 1 0; " +
			"wait 100; wait 1000; remove w3 b; insert a 1 quick; kill-master; refuse 1205 claim 2 1; " +
			"lock 0 2; start-master; kill-runner w2; wait 300; quiet; lock 0 2; wait 20; refuse 1644 end 1 1; " +
			"start-master; insert a 3 quick; kill-master; kill-runner w3; pause w2 c; pause-all b; " +
			"heal-line w1; heal-line w2",
	},
	{
		"drawn once, as seed 6022",
		"workers = 3; slots = 4; prefetch = 0; fetch = 2; crash = requeue; throttle = 0; quiet; stop w3; " +
			"slip b 6 short; refuse 1644 end 3 2; quiet; wait 100; manual master b 4 quick; lock 7 6; " +
			"deafen-line w3; slip a 4 quick; refuse 1205 claim 1 2",
	},
}
