package gearman

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/net/gearman"
)

// Each command says what gearmand 1.1.20 says; a line ends with LF or CRLF.
func TestTextCommands(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	client, admin := connect(t, address), connect(t, address)
	for i, kind := range []gearman.Kind{gearman.SubmitJobBg, gearman.SubmitJobHighBg, gearman.SubmitJob} {
		client.send(kind, "f", "u"+strconv.Itoa(i), "")
		client.want(gearman.JobCreated)
	}
	runner := able(t, address, "g")
	runner.send(gearman.SetClientID, "a worker\n")
	runner.synced()
	for _, c := range []struct{ command, want string }{
		{"status\n", "f\t3\t0\t0\ng\t0\t0\t1\n.\n"},
		{"prioritystatus\r\n", "f\t1\t2\t0\t0\ng\t0\t0\t0\t1\n.\n"},
		{"STATUS\r\n", "f\t3\t0\t0\ng\t0\t0\t1\n.\n"},
		{"workers\n", "1 127.0.0.1 - :\n2 127.0.0.1 - :\n3 127.0.0.1 a worker_ : g\n.\n"},
		{"show jobs\n", "H:node:1\t0\t0\t1\nH:node:2\t0\t0\t1\nH:node:3\t0\t0\t0\n.\n"},
		{"show unique jobs\n", "u0\nu1\nu2\n.\n"},
		{"show\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshow\r\n"},
		{"show all\n", "ERR UNKNOWN_SHOW_ARGUMENTS\r\n"},
		{"create function h\n", "OK\r\n"},
		{"create function\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+create\r\n"},
		{"create function two words\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+create\r\n"},
		{"drop function h\n", "OK\r\n"},
		{"drop function h\n", "ERR function not found\r\n"},
		{"drop function f\n", "ERR there are jobs of it, which would be lost\r\n"},
		{"drop function g\n", "ERR there are still connected workers or executing clients\r\n"},
		{"drop\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+drop\r\n"},
		{"cancel job H:node:10\n", "ERR UNKNOWN_JOB\r\n"},
		{"cancel job H:other:1\n", "ERR UNKNOWN_JOB\r\n"},
		{"cancel job H:node:3\n", "OK\r\n"},
		{"cancel\n", "ERR UNKNOWN_COMMAND Unknown+server+commandcancel\r\n"},
		{"cancel all H:node:3\n", "ERR UNKNOWN_ERROR\r\n"},
		{"maxqueue f 2\n", "OK\r\n"},
		{"maxqueue nowhere 2\n", "OK\r\n"},
		{"maxqueue\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+maxqueue\r\n"},
		{"version\n", "OK 1.2.3\n"},
		{"verbose\n", "OK ERROR\n"},
		{"shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n"},
		{"\n", "ERR UNKNOWN_COMMAND Unknown+server+command\r\n"},
	} {
		admin.says(c.command, c.want)
	}
	if wish := <-w.cancels; !slices.Equal(wish.IDs, []int64{3}) {
		t.Errorf("cancelled: %+v", wish)
	}
	client.send(gearman.SubmitJobBg, "f", "u9", "")
	client.want(gearman.WorkFail, "H:node:3") // which was cancelled
	client.want(gearman.Error, "QUEUE_ERROR")
	client.send(gearman.SubmitJobBg, "f", "u1", "")
	client.want(gearman.JobCreated, "H:node:2") // joining is no more
}

// Functions that nobody needs make room for others.
func TestUnusedFunctionsMakeRoom(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	p := connect(t, address)
	p.send(gearman.SubmitJobBg, "has a job", "", "")
	p.want(gearman.JobCreated)
	able(t, address, "has a worker")
	for i := range mostFound - 2 {
		p.says(fmt.Sprintf("create function f%d\n", i), "OK\r\n")
	}
	swept := func(at time.Time) {
		w.front.functions.sweeping.Lock()
		defer w.front.functions.sweeping.Unlock()
		w.front.functions.swept = at
	}
	swept(time.Now().Add(time.Hour))
	p.says("create function another\n", "ERR 1000 functions with workers or jobs are targets already, which is the most\r\n")
	swept(time.Time{})
	p.says("create function another\n", "OK\r\n")
	if got := w.TargetNames(); !slices.Equal(got, []string{"another", "has a job", "has a worker"}) {
		t.Errorf("%d are targets: %.100q", len(got), got)
	}
}

// Functions become targets, with a slot for each worker that is connected.
func TestFunctionsBecomeTargets(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	until := func(want int) {
		t.Helper()
		for {
			select {
			case n := <-w.slots:
				if n == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("there are never %d slots", want)
			}
		}
	}
	first, _, third := able(t, address, "f"), able(t, address, "f"), able(t, address, "f")
	until(3)
	first.send(gearman.CantDo, "f")
	until(2)
	third.send(gearman.ResetAbilities)
	until(1)
	third.send(gearman.CanDo, "null")
	third.want(gearman.Error, "INVALID_FUNCTION_NAME")
}

func TestHandles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"n", strings.Repeat("n", 100)} {
		f := New(Config{Name: name})
		for _, id := range []int64{1, 1 << 62} {
			if h := f.handle(id); len(h) > 63 || f.idOf(h) != id || f.idOf(h+".2") != 0 {
				t.Errorf("%s is of job %d, not %d", h, f.idOf(h), id)
			}
		}
		for _, odd := range []string{"", "H:", "H:x:1", "1", "H:n:01", "H:n:-"} {
			if id := f.idOf(odd); id != 0 {
				t.Errorf("%q is of job %d", odd, id)
			}
		}
	}
}
