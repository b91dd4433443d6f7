package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"jobd/exec/request/fcgi"
	"jobd/tests/harness"
	"jobd/tests/launchers/loop"
)

// How many jobs run at once, by jobd and beside it. Short jobs are done by more processes, and claimed
// ahead: what a turn of the worker, and a commit, costs is shared by more of them.
const (
	executorSlots = 4
	forkSlots     = 8
	poolSlots     = 32
	keptPrefetch  = 400
)

// besideSizes are the sizes of a pool that is measured beside gearmand. A job passes more hands in jobd, each of
// which takes its time: more slots keep the processors busy meanwhile.
var besideSizes = [...]int{poolSlots, 3 * poolSlots}

// executor is one way to run the jobs of one language.
type executor struct {
	what    string
	program string // the interpreter
	file    string // what it runs: one of the benchmark's own, or of examples/launchers
	mode    string
	ends    string // of loops that can be driven by hand: how they tell of ends
	jobs    int    // of one drain
	slots   int
	rows    []row
}

// executorsOf lists what is measured. Each has three rows: jobs a second and processor time a job, both beside
// the bare limit, and how long a job waits for its start.
func executorsOf() []executor {
	list := []executor{
		{what: "PHP process", program: "php", file: "process.php", mode: "process", jobs: 160},
		{what: "PHP fork", program: "php", file: "fork.php", mode: "fork", ends: loop.Ended, jobs: 2000},
		{what: "PHP fork, 24 at once", program: "php", file: "fork.php", mode: "fork", ends: loop.Ended, jobs: 2000, slots: 3 * forkSlots},
		{what: "PHP pool", program: "php", file: "pool.php", mode: "pool", ends: loop.Exit, jobs: 8000},
		{what: "Python process", program: "python3", file: "process.py", mode: "process", jobs: 60},
		{what: "Python fork", program: "python3", file: "fork.py", mode: "fork", ends: loop.Ended, jobs: 1000},
		{what: "Python pool", program: "python3", file: "pool.py", mode: "pool", ends: loop.Exit, jobs: 4000},
		{what: "Node.js process", program: "node", file: "process.cjs", mode: "process", jobs: 100},
		{what: "Node.js pool", program: "node", file: "pool.cjs", mode: "pool", ends: loop.Exit, jobs: 4000},
		{what: "HTTP service in Go", mode: "http", jobs: 4000},
		{what: "php-fpm with opcache", mode: "fastcgi", jobs: 4000},
	}
	goals := map[string][2]goal{
		"PHP fork":             {ratioAtLeast(0.8)},
		"PHP fork, 24 at once": {ratioAtLeast(0.8)},
		"PHP pool":             {atLeast(2500)},
	}
	for i := range list {
		e := &list[i]
		switch {
		case e.slots > 0:
		case e.mode == "pool":
			e.slots = poolSlots
		case e.mode == "fork":
			e.slots = forkSlots
		default:
			e.slots = executorSlots
		}
		e.rows = []row{
			{e.what + ", drained ÷ the same by hand", "jobs/s", goals[e.what][0]},
			{what: e.what + ", processor time a job, with the worker's and the runner's ÷ the same by hand", unit: "ms"},
			{e.what + ", poke to start, p50 (and p99 in the place of the raw limit)", "ms", goals[e.what][1]},
		}
	}
	return list
}

// executorRows are the rows of all of them.
func executorRows() (rows []row) {
	for _, e := range executorsOf() {
		rows = append(rows, e.rows...)
	}
	return rows
}

// executors measures every executor beside what its interpreter does without jobd.
func executors(p *program) (readings []reading) {
	folder := application(p)
	for _, e := range executorsOf() {
		p.Logf("%s", e.what)
		readings = append(readings, e.measure(p, folder)...)
	}
	return readings
}

// poolRows are what pools gives.
func poolRows() (rows []row) {
	for _, size := range besideSizes {
		what := fmt.Sprintf("PHP pool of %d ÷ gearmand with as many persistent workers, each job's row updated at its end", size)
		rows = append(rows, row{what, "jobs/s", ratioAtLeast(1)})
	}
	return rows
}

// pools measures PHP pools beside gearmand.
func pools(p *program) (readings []reading) {
	folder, all := application(p), executorsOf()
	pool := all[slices.IndexFunc(all, func(e executor) bool { return e.what == "PHP pool" })]
	for _, size := range besideSizes {
		readings = append(readings, besideGearmand(p, folder, pool, size))
	}
	return readings
}

// contender does jobs, and knows what processor time all that took so far.
type contender struct {
	rate func(n int) float64
	time func() time.Duration
}

// timed is the rate of n jobs, and how many milliseconds of processor time each took.
func (c contender) timed(n int) (rate, cost float64) {
	before := c.time()
	rate = c.rate(n)
	return rate, float64(c.time()-before) / float64(n) / millisecond
}

// measure drains jobs through jobd and by hand in turn, then polls for single ones.
func (e executor) measure(p *program, folder string) []reading {
	bell := newBell(p, 0)
	jobd, poll, s, raw, stop := e.contenders(p, folder, bell)
	jobd.rate(max(e.jobs/20, e.slots))
	var costs measured
	rates := paired(3,
		func() float64 { rate, cost := raw.timed(e.jobs); costs.raws = append(costs.raws, cost); return rate },
		func() float64 {
			rate, cost := jobd.timed(e.jobs)
			costs.products = append(costs.products, cost)
			return rate
		},
	)
	stop()
	starts := s.polls(bell, poll)
	return []reading{
		rates,
		against(median(costs.products), median(costs.raws)),
		against(median(starts), percentile(starts, 99)),
	}
}

// contenders are jobd and what is done by hand.
func (e executor) contenders(p *program, folder string, bell *bell) (jobd contender, poll func(), s *site, raw contender, stop func()) {
	switch e.mode {
	case "http":
		plain, ringing := serve(p, nil), serve(p, bell)
		jobd, poll, s = e.throughJobd(p, plain+"/{id}", harness.Settings{"[target bell] launcher": ringing + "/{id}"})
		raw, stop = posted(p, plain)
	case "fastcgi":
		plain, ringing := startFPM(p, folder, nil), startFPM(p, folder, bell)
		script := filepath.Join(folder, "fpm.php")
		jobd, poll, s = e.throughJobd(p, "fastcgi:"+plain.socket+" "+script, harness.Settings{"[target bell] launcher": "fastcgi:" + ringing.socket + " " + script})
		jobd.time = plain.beside(p, jobd.time)
		raw, stop = plain.asked(p, script)
	default:
		command := e.program + " " + filepath.Join(folder, e.file)
		jobd, poll, s = e.throughJobd(p, command, harness.Settings{
			"launcher_mode": e.mode, "launcher.env.BENCH_CLASSES": filepath.Join(folder, "classes"),
			"[target bell] launcher.env.BENCH_BELL": bell.pipe,
		})
		raw, stop = e.byHand(p, folder)
	}
	return jobd, poll, s, raw, stop
}

// throughJobd is the executor as users have it.
func (e executor) throughJobd(p *program, command string, settings harness.Settings) (contender, func(), *site) {
	s := newSite(p)
	switch e.mode {
	case "process":
		command += " {id}"
	case "pool", "fork":
		settings["prefetch"] = strconv.Itoa(keptPrefetch)
	}
	worker := s.worker("bench", command, map[string]int{"a": e.slots, "bell": executorSlots}, settings)
	client := harness.Dial(p, worker.Addr)
	poll := func() { client.Ask(p, "poll", nil) }
	return contender{
		func(n int) float64 { return s.drainRate(n, "a", poll) },
		func() time.Duration { return familyTime(p, worker.Pid, worker.Runner(p)) },
	}, poll, s
}

// byHand is the same without jobd: processes that are spawned, or loops that are asked.
func (e executor) byHand(p *program, folder string) (c contender, stop func()) {
	file := filepath.Join(folder, e.file)
	if e.ends == "" {
		each := func(id int) error { return spawn(e.program, file, strconv.Itoa(id)) }
		return contender{func(n int) float64 { return p.shared(n, e.slots, func(_, id int) error { return each(id) }) }, childrenTime}, func() {}
	}
	loops := make([]*loop.Loop, e.slots)
	pids := make([]int, e.slots)
	for i := range loops {
		var err error
		loops[i], err = loop.Start(e.ends, io.Discard, os.Stderr, e.program, file)
		p.must(err)
		pids[i] = loops[i].Pid()
	}
	each := func(slot, id int) error {
		end, err := loops[slot].Run(int64(id))
		if err == nil && end != 0 {
			err = fmt.Errorf("it ended with %d", end)
		}
		return err
	}
	c.rate = func(n int) float64 { return p.shared(n, e.slots, each) }
	c.time = func() time.Duration { return familyTime(p, pids...) }
	return c, func() {
		for _, l := range loops {
			p.must(l.Quit())
		}
	}
}

// shared is how many jobs a second so many slots do together.
func (p *program) shared(n, slots int, do func(slot, id int) error) float64 {
	var next, slot atomic.Int64
	return rate(n, func() {
		atOnce(slots, func() {
			mine := int(slot.Add(1) - 1)
			for id := next.Add(1); id <= int64(n); id = next.Add(1) {
				if err := do(mine, int(id)); err != nil {
					p.Logf("job %d by hand: %v", id, err)
				}
			}
		})
	})
}

// apart is how long single jobs are apart: pool processes are ready again by then.
const apart = 200 * time.Millisecond

// polls gives how many milliseconds the starts of single jobs took from a poll of the worker.
func (s *site) polls(bell *bell, poll func()) (starts []float64) {
	const times = 40
	for range times {
		<-time.After(apart)
		s.insert(1, "bell", "waiting")
		starts = append(starts, took(func() {
			go poll()
			bell.await(s.p)
		}))
	}
	return starts
}

// childrenTime is the processor time of all our children that have ended.
func childrenTime() time.Duration { return processTime(syscall.RUSAGE_CHILDREN) }

// processTime is the processor time of this process, or of its children that have ended.
func processTime(who int) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		panic(err) // it can't
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serve is an HTTP service in this process that does nothing for a job, or rings.
func serve(p *program, bell *bell) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Jobd-Claim", r.Header.Get("Jobd-Claim"))
		if bell != nil {
			p.must(os.WriteFile(bell.pipe, []byte("\n"), 0))
		}
	})}
	go func() { _ = server.Serve(listener) }()
	p.Cleanup(func() { server.Close() })
	return "http://" + listener.Addr().String()
}

// posted is the service asked by Go's own client. Its processor time is this process's: the client's and the
// service's. Through jobd the service's is not counted.
func posted(p *program, url string) (c contender, stop func()) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: executorSlots}}
	each := func(_, id int) error {
		answer, err := client.Post(url+"/"+strconv.Itoa(id), "", nil)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	return contender{
		func(n int) float64 { return p.shared(n, executorSlots, each) },
		ourTime,
	}, client.CloseIdleConnections
}

// ourTime is the processor time of this process.
func ourTime() time.Duration { return processTime(syscall.RUSAGE_SELF) }

// fpm is php-fpm with as many processes as jobd has slots.
type fpm struct {
	socket string
	pid    int
}

// startFPM starts php-fpm in the foreground, with a socket of its own.
func startFPM(p *program, folder string, bell *bell) fpm {
	programs, err := filepath.Glob("/usr/sbin/php-fpm*")
	p.must(err)
	if len(programs) == 0 {
		p.Fatal("there is no php-fpm: make deps installs it")
	}
	dir := p.TempDir()
	f := fpm{socket: filepath.Join(dir, "s")}
	lines := []string{
		"[global]", "error_log = /proc/self/fd/2", "log_level = error", "daemonize = no",
		"[www]", "listen = " + f.socket, "pm = static", fmt.Sprint("pm.max_children = ", executorSlots),
		"env[BENCH_CLASSES] = " + filepath.Join(folder, "classes"),
	}
	if bell != nil {
		lines = append(lines, "env[BENCH_BELL] = "+bell.pipe)
	}
	args := []string{"-F", "-y", filepath.Join(dir, "fpm.conf")}
	if os.Getuid() == 0 {
		lines, args = append(lines, "user = root", "group = root"), append(args, "-R")
	}
	p.must(os.WriteFile(filepath.Join(dir, "fpm.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	master := exec.Command(slices.Max(programs), args...)
	master.Stderr = os.Stderr
	p.must(master.Start())
	p.Cleanup(func() { _ = master.Process.Signal(syscall.SIGTERM); _ = master.Wait() })
	f.pid = master.Process.Pid
	for range 500 {
		if conn, err := net.Dial("unix", f.socket); err == nil {
			conn.Close()
			return f
		}
		<-time.After(look)
	}
	p.Fatal("php-fpm does not listen")
	return f
}

// beside is the processor time of php-fpm with that of others.
func (f fpm) beside(p *program, others func() time.Duration) func() time.Duration {
	return func() time.Duration { return others() + familyTime(p, f.pid) }
}

// asked is php-fpm asked by hand, over a connection for each request, as jobd does.
func (f fpm) asked(p *program, script string) (c contender, stop func()) {
	each := func(_, id int) error {
		conn, err := net.Dial("unix", f.socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		request := fcgi.Request([]fcgi.Param{
			{Name: "REQUEST_METHOD", Value: "POST"},
			{Name: "SCRIPT_FILENAME", Value: script},
			{Name: "CONTENT_LENGTH", Value: "0"},
			{Name: "QUERY_STRING", Value: strconv.Itoa(id)},
			{Name: "JOBD_ID", Value: strconv.Itoa(id)},
		})
		if _, err := conn.Write(request); err != nil {
			return err
		}
		answer, err := io.ReadAll(conn)
		if err == nil && !strings.Contains(string(answer), "Jobd-Exit-Code: 0") {
			err = fmt.Errorf("php-fpm answers %q", answer)
		}
		return err
	}
	return contender{
		func(n int) float64 { return p.shared(n, executorSlots, each) },
		func() time.Duration { return familyTime(p, f.pid) },
	}, func() {}
}
