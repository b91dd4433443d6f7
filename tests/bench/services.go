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
	"syscall"
	"time"

	"jobd/exec/request/fcgi"
)

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
