package gearman

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// peers are other people's libraries. Each has a program in testdata that is a worker, `worker PORT PREFIX`, with the
// functions PREFIX.talk, which sends data, a warning, a status and a result; PREFIX.echo; PREFIX.fail; PREFIX.throw,
// which sends an exception; and PREFIX.held, which writes a line into the file PATH.runs, where PATH is the workload,
// and waits until there is a file PATH. It is also a client, `client PORT PREFIX WHAT ARGUMENT`, that prints what it
// hears of a job of a function, of two jobs of PREFIX.held with one unique id, or of one in the background.
type peer struct {
	name    string
	command []string
	env     []string
	hears   map[string][]string // what a client hears of its worker
	delays  bool                // it submits jobs with a time
}

func peers(t *testing.T) []peer {
	t.Helper()
	testdata := must.Get(filepath.Abs("testdata"))(t)
	native := filepath.Join(t.TempDir(), "peer")
	cc := exec.Command("cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", native, filepath.Join(testdata, "peer.c"), "-lgearman")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	all := map[string][]string{
		"talk":  {"data d:hi", "warning w", "status 1/2", "complete c:hi"},
		"fail":  {"fail"},
		"throw": {"exception thrown"},
	}
	peers := []peer{
		{name: "libgearman", command: []string{native}, hears: all, delays: true},
		{name: "php-gearman", command: []string{"php", filepath.Join(testdata, "peer.php")}, hears: all},
		{name: "php-gearman-loop", command: []string{"php", filepath.Join(testdata, "peer.php")}, env: []string{"NON_BLOCKING=1"}, hears: all},
		{name: "Gearman-Client", command: []string{"perl", filepath.Join(testdata, "peer.pl")}, hears: map[string][]string{
			"talk":  {"status 1/2", "complete c:hi"}, // a worker sends nothing else
			"fail":  {"fail"},
			"throw": {"exception thrown"},
		}},
	}
	node := filepath.Join(harness.Top(), "bin", "gearmanode", "node_modules")
	if _, err := os.Stat(node); err == nil {
		peers = append(peers, peer{
			name: "gearmanode", command: []string{"node", filepath.Join(testdata, "peer.cjs")}, env: []string{"NODE_PATH=" + node}, hears: all,
		})
	} else {
		t.Logf("gearmanode is not tried: make deps had no npm, or npm no registry: %v", err)
	}
	return peers
}

func TestPeersOfJobd(t *testing.T) {
	t.Parallel()
	settings, addr, _ := site(t)
	settings["gearman_max_packet"] = "128MiB" // workloads of 64 MiB have something beside them
	settings.StartWorker(t)
	testPeers(t, addr)
}

// testPeers has each library's client pass jobs to the next one's worker, and to its own.
func testPeers(t *testing.T, addr string) {
	t.Helper()
	all := peers(t)
	for _, p := range all {
		p.start(t, addr)
	}
	worker(t, addr, "gearman.echo", "cat")
	t.Run("each other", func(t *testing.T) {
		for i, p := range all {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				next := all[(i+1)%len(all)]
				for _, what := range []string{"talk", "fail"} {
					if heard := p.ask(t, addr, next.name, what, "hi"); !slices.Equal(heard, next.hears[what]) {
						t.Errorf("%s of %s: the client heard %q, want %q", what, next.name, heard, next.hears[what])
					}
				}
				for _, name := range []string{next.name, "gearman"} {
					if heard := p.ask(t, addr, name, "echo", "5000"); !slices.Equal(heard, []string{"complete 5000 bytes"}) {
						t.Errorf("echo of %s: the client heard %.300q", name, heard)
					}
				}
				if out, err := tool(t, addr, "gearman", "-f", p.name+".echo", "hi").Output(); err != nil || string(out) != "hi" {
					t.Errorf("the program gearman: %v: it says %q", err, out)
				}
			})
		}
	})
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.hear(t, addr, "talk")
			p.hear(t, addr, "fail")
			size := harness.Size(2<<20, 64<<20) // libgearman takes a second for a mebibyte, whoever serves it
			if heard := p.ask(t, addr, p.name, "echo", fmt.Sprint(size)); !slices.Equal(heard, []string{fmt.Sprintf("complete %d bytes", size)}) {
				t.Errorf("echo: the client heard %.300q", heard)
			}
			p.joins(t, addr)
			p.background(t, addr)
			if p.delays {
				path := filepath.Join(t.TempDir(), "open")
				harness.Touch(t, path)
				p.ask(t, addr, p.name, "delayed", path)
				harness.AwaitFile(t, path+".runs")
			}
			p.hear(t, addr, "throw") // Gearman::Worker dies of what it is told of the FAIL that it sends behind
		})
	}
}

func (p peer) run(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), p.command[0], slices.Concat(p.command[1:], words)...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// start starts the worker.
func (p peer) start(t *testing.T, addr string) {
	t.Helper()
	worker := p.run(t, "worker", port(addr), p.name)
	var said strings.Builder
	worker.Stdout, worker.Stderr = &said, &said
	must.Do(t, worker.Start())
	t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
		if t.Failed() {
			t.Logf("the worker said:\n%s", &said)
		}
	})
}

// hear has the client hear what it should of a job.
func (p peer) hear(t *testing.T, addr, what string) {
	t.Helper()
	if heard := p.ask(t, addr, p.name, what, "hi"); !slices.Equal(heard, p.hears[what]) {
		t.Errorf("%s: the client heard %q, want %q", what, heard, p.hears[what])
	}
}

// ask has the client ask for a job of somebody's worker and run to its end, and gives what it heard.
func (p peer) ask(t *testing.T, addr, of, what, argument string) []string {
	t.Helper()
	var stderr strings.Builder
	client := p.run(t, "client", port(addr), of, what, argument)
	client.Stderr = &stderr
	out, err := client.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s%s", what, err, out, &stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// joins has two clients submit one job, by its unique id: it is run once, and each hears its end.
func (p peer) joins(t *testing.T, addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "open")
	var clients []*exec.Cmd
	var heard [2]strings.Builder
	for i := range heard {
		client := p.run(t, "client", port(addr), p.name, "held", path)
		client.Stdout, client.Stderr = &heard[i], &heard[i]
		must.Do(t, client.Start())
		clients = append(clients, client)
	}
	l := &link{conn: must.Get(net.Dial("tcp", addr))(t)}
	defer l.conn.Close()
	harness.Until(t, func() string {
		must.Do(t, l.send(41, p.name))
		got := must.Get(l.wanted(42))(t)
		if got.arguments[5] != "2" {
			return fmt.Sprintf("%q is how the job stands for which two should wait", got.arguments)
		}
		return ""
	})
	harness.Touch(t, path)
	for i, client := range clients {
		if err := client.Wait(); err != nil || heard[i].String() != "complete held\n" {
			t.Errorf("one of two clients of a job: %v: it heard %q", err, &heard[i])
		}
	}
	if runs := must.Get(os.ReadFile(path + ".runs"))(t); string(runs) != "run\n" {
		t.Errorf("it was run: %q", runs)
	}
}

// background has a client submit a job in the background, and ask for its status until it is over.
func (p peer) background(t *testing.T, addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "open")
	client := p.run(t, "client", port(addr), p.name, "background", path)
	out := must.Get(client.StdoutPipe())(t)
	must.Do(t, client.Start())
	var heard []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		heard = append(heard, lines.Text())
		if lines.Text() == "running" {
			harness.Touch(t, path)
		}
	}
	if err := client.Wait(); err != nil || !slices.Equal(heard, []string{"running", "over"}) {
		t.Errorf("the client of a job in the background: %v; it heard %q", err, heard)
	}
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
