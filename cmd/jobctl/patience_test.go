package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// silentDaemon answers the requests that are named, and others never; with asked it tells what it was asked.
func silentDaemon(t *testing.T, answers map[string]any, asked chan<- string) (port string) {
	t.Helper()
	handlers, over := map[string]jobnet.Handler{}, make(chan struct{})
	for _, typ := range []string{"status", "poll", "pause", "run-manual", "restart", "journal-anchor", "journal-events", "journal-next"} {
		handlers[typ] = func(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			if answer, known := answers[typ]; known && (typ != "status" || !request.Fields().Flag("hang")) {
				return answer, nil
			}
			request.Proceed()
			if asked != nil {
				asked <- typ
			}
			select {
			case <-ctx.Done():
			case <-over:
			}
			return nil, context.Canceled
		}
	}
	port = listen(t, jobnet.ServerConfig{Handlers: handlers})
	t.Cleanup(func() { close(over) })
	return port
}

// patiently tries something with more and more patience until nothing is wrong with it: on a busy
// machine a little may be too little for what is to come within it.
func patiently(t *testing.T, try func(patience time.Duration) (wrong string), patience ...time.Duration) {
	t.Helper()
	for _, p := range patience {
		wrong := try(p)
		if wrong == "" {
			return
		}
		if p == patience[len(patience)-1] {
			t.Error(wrong)
		}
	}
}

// A daemon that hangs is named after a while, whatever it was asked; what waits for jobs waits.
func TestAnAnswerThatDoesNotCome(t *testing.T) {
	t.Parallel()
	status := map[string]any{"status": json.RawMessage(workerAnswer)}
	for args, answers := range map[string]map[string]any{
		"status": nil, "list-targets": nil, "poll": status, "pause": status, "run-manual 5": nil, "restart": nil, "journal log": status,
		"journal log --follow": status, "journal show 5": {"status": status["status"], "journal-events": map[string]string{"cursor": "c"}},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			port := silentDaemon(t, answers, nil)
			patiently(t, func(patience time.Duration) string {
				got := jobctl{patience: patience}.run(t, append([]string{"--port", port}, strings.Fields(args)...)...)
				if got.code != 1 || !strings.HasPrefix(got.err, "jobctl: 127.0.0.1:"+port+": no answer within ") {
					return fmt.Sprintf("%+v", got)
				}
				return ""
			}, time.Second, 10*time.Second)
		})
	}
	if queryTimeout != 10*time.Second {
		t.Errorf("the default is %v, and the documentation says 10 s", queryTimeout)
	}
}

// A process that was stopped takes connections and answers nothing.
func TestADaemonThatWasStopped(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	for _, args := range []string{"status", "run-manual 5", "pause"} {
		patiently(t, func(patience time.Duration) string {
			got := jobctl{patience: patience}.run(t, append([]string{"--port", port}, strings.Fields(args)...)...)
			want := fmt.Sprintf("jobctl: 127.0.0.1:%s: no answer within %s\n", port, patience)
			if got != (output{code: 1, err: want}) {
				return fmt.Sprintf("%s: %+v", args, got)
			}
			return ""
		}, 200*time.Millisecond, 10*time.Second)
	}
}

// --timeout is for the whole run, and takes the place of the default, also where it is longer, or 0.
func TestTimeoutTakesThePlaceOfTheDefault(t *testing.T) {
	t.Parallel()
	slow := startSlow(t, 100*time.Millisecond)
	for _, timeout := range []string{"0", "1h"} {
		if got := (jobctl{patience: time.Millisecond}).run(t, "--port", slow, "--timeout", timeout, "status"); got.code != 0 {
			t.Errorf("--timeout %s: %+v", timeout, got)
		}
	}
	patiently(t, func(timeout time.Duration) string {
		slower := startSlow(t, 10*timeout)
		got := jobctl{patience: time.Hour}.run(t, "--port", slower, "--timeout", timeout.String(), "status")
		if got.code != 5 || !strings.Contains(got.err, "no answer within "+timeout.String()) {
			return fmt.Sprintf("--timeout %s: %+v", timeout, got)
		}
		return ""
	}, 10*time.Millisecond, time.Second, 10*time.Second)
}

// startSlow starts a worker that takes so long for an answer.
func startSlow(t *testing.T, takes time.Duration) (port string) {
	t.Helper()
	return listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			request.Proceed()
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return json.RawMessage(workerAnswer), nil
		},
	}})
}

// Ctrl-C ends jobctl, not the jobs, and says so.
func TestInterruptedRuns(t *testing.T) {
	t.Parallel()
	status := map[string]any{"status": json.RawMessage(workerAnswer)}
	for name, test := range map[string]struct {
		signal syscall.Signal
		args   string
		asked  string
		code   int
		want   string
	}{
		"one job":     {syscall.SIGINT, "run-manual 5", "run-manual", 130, "jobctl: interrupted; the job goes on without jobctl: 'jobctl journal show 5' tells how it ends\n"},
		"two jobs":    {syscall.SIGTERM, "run-manual 5 6", "run-manual", 143, "jobctl: terminated; the jobs go on without jobctl: 'jobctl journal show 5' tells how it ends\n"},
		"a change":    {syscall.SIGINT, "pause", "pause", 130, "jobctl: interrupted; whether it did what it was asked for (pause) is not known\n"},
		"a question":  {syscall.SIGINT, "list-targets", "status", 130, "jobctl: interrupted\n"},
		"before that": {syscall.SIGINT, "run-manual 5", "status", 130, "jobctl: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, answers := make(chan string, 1), status
			if test.asked == "status" {
				answers = nil
			}
			port := silentDaemon(t, answers, asked)
			cmd := ownProcess(t, append([]string{"--port", port}, strings.Fields(test.args)...)...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			must.Do(t, cmd.Start())
			if typ := <-asked; typ != test.asked {
				t.Fatalf("asked %s", typ)
			}
			must.Do(t, cmd.Process.Signal(test.signal))
			_ = cmd.Wait()
			if cmd.ProcessState.ExitCode() != test.code || errs.String() != test.want {
				t.Errorf("%v, stderr %q, want exit code %d and %q", cmd.ProcessState, errs.String(), test.code, test.want)
			}
		})
	}
}

// endlessServer answers everything with bytes that do not end.
func endlessServer(t *testing.T, head string) (port string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				request, _ := bufio.NewReader(conn).ReadString(4)
				no := request[strings.Index(request, `"no":`)+5:]
				no = no[:strings.IndexAny(no, ",}")]
				fmt.Fprintf(conn, head, no)
				filler := bytes.Repeat([]byte("x"), 1<<20)
				for err == nil {
					_, err = conn.Write(filler)
				}
			}()
		}
	}()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// A server that writes without end costs neither the memory nor the patience of whoever asked it.
func TestAnEndlessAnswer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the memory is measured as Linux tells it")
	}
	for name, head := range map[string]string{"a string": `[1,{"no":%s,"data":"`, "no frame": `%s`, "a frame of another": "[2]\x04%s"} {
		cmd := ownProcess(t, "--timeout", "2m", "--port", endlessServer(t, head), "status") // a busy machine reads slowly
		var errs bytes.Buffer
		cmd.Stderr = &errs
		_ = cmd.Run()
		usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "message too long: at most 268435456 bytes are allowed") {
			t.Errorf("%s: %v, stderr %q", name, cmd.ProcessState, errs.String())
		}
		if most := int64(1 << 20); usage.Maxrss > most { // a fifth of it, save under the race detector
			t.Errorf("%s: %d KiB of memory, want at most %d", name, usage.Maxrss, most)
		}
		t.Logf("%s: %d KiB", name, usage.Maxrss)
	}
}
