package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"jobd/tests/harness"
)

// besideGearmandsOwn is jobd's front for Gearman beside gearmand: how many jobs a second clients submit, and have
// done, by workers that answer at once. gearmand keeps jobs in memory, or in its own SQLite queue; jobd commits each.
func besideGearmandsOwn(p *program) []reading {
	const clients, workers, jobs = 64, 8, 5_000
	folder := p.TempDir()
	start := func(args ...string) *functions {
		f := &functions{p, harness.FreePort(p)}
		startGearmand(p, f.port, args...)
		return f
	}
	memory := start()
	durable := start("--queue-type=libsqlite3", "--libsqlite3-db="+filepath.Join(folder, "queue.db"))
	ours := &functions{p, harness.FreePort(p)}
	harness.Settings{
		"host": "127.0.0.1", "port": harness.FreePort(p), "name": "bench", "store": "sqlite", "sqlite_path": filepath.Join(folder, "jobs.db"),
		"journal_dir": filepath.Join(folder, "journal"), "gearman_listen": "127.0.0.1:" + ours.port, "launcher": "gearman", "log_level_console": "warn",
		"gearman_concurrency": "32", "prefetch": "0", // the next jobs of a worker are claimed while it is busy
	}.StartWorker(p)
	awaitListener(p, ours.port)
	for _, f := range []*functions{memory, durable, ours} {
		for range workers {
			f.work("echo")
		}
		f.submit(submitJob, "echo", clients, jobs/10)
	}
	foreground := func(f *functions) func() float64 {
		return func() float64 { return rate(jobs, func() { f.submit(submitJob, "echo", clients, jobs) }) }
	}
	background := func(f *functions, jobs int) func() float64 {
		return func() float64 { return rate(jobs, func() { f.submit(submitJobBackground, "later", clients, jobs) }) }
	}
	return []reading{
		paired(5, foreground(memory), foreground(ours)),
		paired(5, background(memory, jobs), background(ours, jobs)),
		paired(3, background(durable, jobs/10), background(ours, jobs)),
	}
}

// functions is a server that speaks Gearman.
type functions struct {
	p    *program
	port string
}

// The packets that are needed here.
const (
	canDo, preSleep, noopPacket, submitJob, jobCreated = 1, 4, 6, 7, 8
	grabJob, noJob, jobAssign, workComplete            = 9, 10, 11, 13
	submitJobBackground                                = 18
)

// packets is one end of a connection.
type packets struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
}

func (f *functions) dial() *packets {
	conn, err := net.Dial("tcp", "127.0.0.1:"+f.port)
	f.p.must(err)
	f.p.Cleanup(func() { _ = conn.Close() })
	return &packets{conn: conn, in: bufio.NewReader(conn)}
}

func (c *packets) send(kind uint32, args ...string) error {
	body := strings.Join(args, "\x00")
	packet := binary.BigEndian.AppendUint32(append(make([]byte, 0, 12+len(body)), "\x00REQ"...), kind)
	packet = binary.BigEndian.AppendUint32(packet, uint32(len(body)))
	_, err := c.conn.Write(append(packet, body...))
	return err
}

// next is the next packet, and its first argument.
func (c *packets) next() (kind uint32, first string, err error) {
	var head [12]byte
	if _, err = io.ReadFull(c.in, head[:]); err != nil {
		return 0, "", err
	}
	if n := int(binary.BigEndian.Uint32(head[8:])); n > cap(c.body) {
		c.body = make([]byte, n)
	} else {
		c.body = c.body[:n]
	}
	_, err = io.ReadFull(c.in, c.body)
	first, _, _ = strings.Cut(string(c.body), "\x00")
	return binary.BigEndian.Uint32(head[4:]), first, err
}

// work is a worker that answers at once, until the benchmark ends.
func (f *functions) work(function string) {
	c := f.dial()
	f.p.must(c.send(canDo, function))
	f.p.must(c.send(grabJob))
	go func() {
		for {
			kind, handle, err := c.next()
			switch {
			case err != nil:
				return
			case kind == jobAssign:
				err = c.send(workComplete, handle, "done")
				if err == nil {
					err = c.send(grabJob)
				}
			case kind == noJob:
				err = c.send(preSleep)
			case kind == noopPacket:
				err = c.send(grabJob)
			}
			if err != nil {
				return
			}
		}
	}()
}

// submit has clients submit jobs, one after the other each; in the foreground they wait for its end.
func (f *functions) submit(how uint32, function string, clients, jobs int) {
	var all sync.WaitGroup
	for range clients {
		c := f.dial()
		all.Go(func() {
			defer c.conn.Close()
			for range jobs / clients {
				f.p.must(c.send(how, function, "", "hello"))
				for kind := uint32(0); kind != workComplete && (how == submitJob || kind != jobCreated); {
					var err error
					kind, _, err = c.next()
					f.p.must(err)
				}
			}
		})
	}
	all.Wait()
}

// gearmanJobs is how many jobs gearmand's workers do.
const gearmanJobs = 8000

// besideGearmand is how many jobs a second a PHP pool of some size does, in turn with what gearmand passes to as
// many persistent PHP workers, which update each job's row at its end.
func besideGearmand(p *program, folder string, pool executor, size int) reading {
	p.Logf("PHP pool of %d beside gearmand", size)
	pool.slots = size
	jobd, _, _, _, stop := pool.contenders(p, folder, newBell(p, 0))
	stop()
	jobd.rate(max(pool.jobs/20, pool.slots))
	g := newGearman(p, folder, size)
	return paired(5, g.rate, func() float64 { return jobd.rate(gearmanJobs) })
}

// gearman is a gearmand, and a table whose rows its workers update.
type gearman struct {
	site    *site
	size    int // its workers
	folder  string
	environ []string
}

func newGearman(p *program, folder string, size int) *gearman {
	s := newSite(p)
	port := harness.FreePort(p)
	startGearmand(p, port)
	return &gearman{s, size, folder, append(os.Environ(),
		"BENCH_PORT="+port, "BENCH_CLASSES="+filepath.Join(folder, "classes"), "BENCH_DATABASE="+s.Name,
		"BENCH_SOCKET="+p.server().Socket(), "BENCH_USER=root", "BENCH_PASSWORD=",
	)}
}

// rate is how many jobs a second are done that are there when the workers begin. The workers have loaded the
// application by then.
func (g *gearman) rate() float64 {
	p := g.site.p
	begin, end := g.workers()
	defer end()
	first := g.site.insert(gearmanJobs, "a", "waiting")
	submit := exec.Command("php", filepath.Join(g.folder, "submit.php"), strconv.FormatInt(first, 10), strconv.FormatInt(first+gearmanJobs-1, 10))
	submit.Env, submit.Stderr = g.environ, os.Stderr
	p.must(submit.Run())
	passed := rate(gearmanJobs, func() { begin(); g.site.awaitDone() })
	if done := g.site.Count(p, "id >= ? AND result = 'ok'", first); done != gearmanJobs {
		p.Fatalf("gearmand's workers did %d jobs", done)
	}
	return passed
}

// startGearmand starts gearmand, and waits until it listens.
func startGearmand(p *program, port string, args ...string) {
	server := exec.Command("gearmand", append([]string{"--listen=127.0.0.1", "--port=" + port, "--log-file=stderr", "--verbose=ERROR", "--user=" + me(p)}, args...)...)
	server.Stderr = os.Stderr
	p.must(server.Start())
	p.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	awaitListener(p, port)
}

// awaitListener waits until somebody listens.
func awaitListener(p *program, port string) {
	for range 500 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return
		}
		<-time.After(look)
	}
	p.Fatal("nobody listens on port ", port)
}

// me is the name of the account that this runs under.
func me(p *program) string {
	name, err := exec.Command("id", "-un").Output()
	p.must(err)
	return string(name[:len(name)-1])
}

// workers starts the workers. They load the application, and wait for begin.
func (g *gearman) workers() (begin, end func()) {
	p := g.site.p
	var inputs []*os.File
	var ends []func()
	for range g.size {
		theirs, ours, err := os.Pipe()
		p.must(err)
		worker := exec.Command("php", filepath.Join(g.folder, "gearman.php"))
		worker.Env, worker.Stdin, worker.Stderr = g.environ, theirs, os.Stderr
		said, err := worker.StdoutPipe()
		p.must(err)
		p.must(worker.Start())
		ends = append(ends, func() { _ = worker.Process.Kill(); _ = worker.Wait(); theirs.Close(); ours.Close() })
		_, err = bufio.NewReader(said).ReadString('\n')
		p.must(err)
		inputs = append(inputs, ours)
	}
	begin = func() {
		for _, input := range inputs {
			_, err := input.WriteString("\n")
			p.must(err)
		}
	}
	end = func() {
		for _, end := range ends {
			end()
		}
	}
	return begin, end
}
