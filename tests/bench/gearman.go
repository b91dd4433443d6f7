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

// gearmanRate is how many jobs a second gearmand passes to persistent PHP workers that update each job's row
// at its end. The jobs are there when the workers begin.
func gearmanRate(p *program, folder string) float64 {
	s := newSite(p)
	port := harness.FreePort(p)
	startGearmand(p, port)
	environ := append(os.Environ(),
		"BENCH_PORT="+port, "BENCH_CLASSES="+filepath.Join(folder, "classes"), "BENCH_DATABASE="+s.Name,
		"BENCH_SOCKET="+p.server().Socket(), "BENCH_USER=root", "BENCH_PASSWORD=",
	)
	begin := gearmanWorkers(p, folder, environ)
	rates := make([]float64, 3)
	for i := range rates {
		first := s.insert(gearmanJobs, "a", "waiting")
		submit := exec.Command("php", filepath.Join(folder, "submit.php"), strconv.FormatInt(first, 10), strconv.FormatInt(first+gearmanJobs-1, 10))
		submit.Env, submit.Stderr = environ, os.Stderr
		if i == 0 {
			p.must(submit.Run())
			rates[i] = rate(gearmanJobs, func() { begin(); s.awaitDone() })
			continue
		}
		// The workers are under way: what they do while jobs are submitted counts for them.
		rates[i] = rate(gearmanJobs, func() { p.must(submit.Run()); s.awaitDone() })
	}
	if done := s.Count(p, "result = 'ok'"); done != len(rates)*gearmanJobs {
		p.Fatalf("gearmand's workers did %d jobs", done)
	}
	return percentile(rates, 100)
}

// startGearmand starts gearmand, and waits until it listens.
func startGearmand(p *program, port string) {
	server := exec.Command("gearmand", "--listen=127.0.0.1", "--port="+port, "--log-file=stderr", "--verbose=ERROR", "--user="+me(p))
	server.Stderr = os.Stderr
	p.must(server.Start())
	p.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for range 500 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return
		}
		<-time.After(look)
	}
	p.Fatal("gearmand does not listen")
}

// me is the name of the account that this runs under.
func me(p *program) string {
	name, err := exec.Command("id", "-un").Output()
	p.must(err)
	return string(name[:len(name)-1])
}

// gearmanWorkers starts as many workers as jobd has slots. They load the application, and wait for begin.
func gearmanWorkers(p *program, folder string, environ []string) (begin func()) {
	var inputs []*os.File
	for range poolSlots {
		theirs, ours, err := os.Pipe()
		p.must(err)
		worker := exec.Command("php", filepath.Join(folder, "gearman.php"))
		worker.Env, worker.Stdin, worker.Stderr = environ, theirs, os.Stderr
		said, err := worker.StdoutPipe()
		p.must(err)
		p.must(worker.Start())
		p.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait(); theirs.Close(); ours.Close() })
		_, err = bufio.NewReader(said).ReadString('\n')
		p.must(err)
		inputs = append(inputs, ours)
	}
	return func() {
		for _, input := range inputs {
			_, err := input.WriteString("\n")
			p.must(err)
		}
	}
}
