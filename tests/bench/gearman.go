package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"jobd/tests/harness"
)

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
