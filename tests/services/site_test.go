package services

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/request"
	"jobd/journal"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// secret is what requests are signed with: not only ASCII.
const secret = "gehéim"

// server is a process that serves at a port.
type server struct {
	port  int
	lines chan string // of what it writes
	stop  func()
}

func (s *server) url(path string) string { return "http://" + freeport.Address(s.port) + path }

// serve starts a program that serves at $PORT.
func serve(t *testing.T, env []string, command ...string) *server {
	t.Helper()
	s := &server{port: port(t), lines: make(chan string, 10_000)}
	s.start(t, env, command...)
	return s
}

func port(t *testing.T) int {
	t.Helper()
	port := must.Get(freeport.Take())(t)
	return port
}

func (s *server) start(t *testing.T, env []string, command ...string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), append(env, "PORT="+strconv.Itoa(s.port), "SECRET="+secret, "NODE_PATH=/usr/share/nodejs")...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	must.Do(t, cmd.Start())
	in.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // that it was killed is no news
			<-read
			out.Close()
		}
	}
	t.Cleanup(func() {
		s.stop()
		for t.Failed() && len(s.lines) > 0 {
			t.Log(command[0], "wrote:", <-s.lines)
		}
	})
	harness.Until(t, func() string {
		c, err := net.Dial("tcp", freeport.Address(s.port))
		if err != nil {
			return err.Error()
		}
		c.Close()
		return ""
	})
}

// page is what people are told of all this.
func page(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", "executors-http.md")))(t)
	return string(text)
}

// signed is the shipped file by which a language checks who is asking, where each account may read it.
func signed(t *testing.T, name string) string {
	t.Helper()
	code := must.Get(os.ReadFile(filepath.Join(harness.Top(), "examples", "services", name)))(t)
	file := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(file, code, 0o644))
	return file
}

// asker sends requests as a worker does.
type asker struct {
	*request.Requester
	t    *testing.T
	able chan bool
	jobs int64

	deadline string // that jobs are told; "": in a minute
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	a := &asker{t: t, able: make(chan bool, 10_000)}
	a.Requester = request.New(request.Config{OnStanding: func(s jobexec.PoolStanding) { a.able <- s.Unready == "" }})
	t.Cleanup(func() { a.SetServices(nil) })
	return a
}

// reach waits until a service can be reached, which is another one than before.
func (a *asker) reach(url string) jobexec.Service {
	a.t.Helper()
	return a.serve(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url, Secret: secret})
}

func (a *asker) serve(s jobexec.Service) jobexec.Service {
	a.t.Helper()
	a.SetServices(map[string]jobexec.Service{"mail": s})
	a.await(true)
	return s
}

func (a *asker) await(able bool) {
	a.t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case got := <-a.able:
			if got == able {
				return
			}
		case <-late:
			a.t.Fatalf("the service does not become able (%t)", able)
		}
	}
}

// start begins a job at a service, and lets it be sent.
func (a *asker) start(s jobexec.Service, timeout time.Duration) jobexec.Process {
	a.t.Helper()
	a.jobs++
	if a.deadline != "" {
		timeout = 0 // with one it would be told anew when the request is sent
	}
	deadline := cmp.Or(a.deadline, strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10))
	process := must.Get(a.Start(jobexec.Spec{
		Mode: s.Mode, Target: "mail", Job: a.jobs, Attempt: 1, Token: "@abcdefghi", Service: s, MaxOutput: 1 << 20,
		Timeout: timeout, Vars: []string{"JOBD_DEADLINE=" + deadline},
	}))(a.t)
	<-process.Begun()
	process.(jobexec.Held).Proceed()
	return process
}

// run runs a job at a service to its end.
func (a *asker) run(s jobexec.Service) (journal.Done, error) {
	a.t.Helper()
	process := a.start(s, harness.Patience)
	<-process.Ended()
	return process.Outcome()
}

// shown is an outcome in a line.
func shown(done journal.Done, err error) string {
	code := "-"
	if done.Code != nil {
		code = strconv.Itoa(*done.Code)
	}
	text := fmt.Sprintf("%s %s out %q err %q", done.Result, code, done.Stdout.Kept, done.Stderr.Kept)
	if done.Final {
		text += ", for good"
	}
	if done.RetryAfter > 0 {
		text += fmt.Sprintf(", after %d s", done.RetryAfter)
	}
	if err != nil {
		text += ": " + err.Error()
	}
	return text
}
