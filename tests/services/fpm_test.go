package services

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// fpm is php-fpm, of this machine's version, with processes and a socket of its own.
type fpm struct {
	t       *testing.T
	folder  string // its configuration, and the scripts
	address string // its socket, or host:port
	program string
	config  string
	master  *exec.Cmd
	lines   chan string // of its log
	read    chan struct{}
}

// newFPM starts php-fpm with so many processes, and with lines more in its configuration.
func newFPM(t *testing.T, address string, children int, more ...string) *fpm {
	t.Helper()
	programs, err := filepath.Glob("/usr/sbin/php-fpm*")
	if err != nil || len(programs) == 0 {
		t.Fatalf("there is no php-fpm (%v): make deps installs it", err)
	}
	folder, err := os.MkdirTemp("", "jobd-fpm-") // the path of a socket may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	f := &fpm{t: t, folder: folder, address: address, program: slices.Max(programs), lines: make(chan string, 10_000)}
	if address == "" {
		f.address = filepath.Join(folder, "s")
	}
	lines := append([]string{
		"[global]", "error_log = /proc/self/fd/2", "daemonize = no",
		"[www]", "listen = " + f.address, "pm = static", fmt.Sprint("pm.max_children = ", children),
		"php_admin_flag[log_errors] = on",
	}, more...)
	if os.Getuid() == 0 {
		lines = append(lines, "user = root", "group = root")
	}
	f.config = filepath.Join(folder, "fpm.conf")
	must.Do(t, os.WriteFile(f.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	f.start()
	t.Cleanup(f.stop)
	return f
}

// start starts the master process, in the foreground and without the settings of this machine.
func (f *fpm) start() {
	f.t.Helper()
	args := []string{"-F", "-n", "-y", f.config}
	if os.Getuid() == 0 {
		args = append(args, "-R")
	}
	out, in, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.master = exec.Command(f.program, args...)
	f.master.Stderr = in
	f.master.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(f.t, f.master.Start())
	in.Close()
	f.read = make(chan struct{})
	go func() {
		defer close(f.read)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.lines <- lines.Text()
		}
	}()
	f.says("ready to handle connections")
}

// stop ends the master and its processes, those included that it has left.
func (f *fpm) stop() {
	if f.master == nil {
		return
	}
	_ = syscall.Kill(-f.master.Process.Pid, syscall.SIGKILL) // they may have ended
	_ = f.master.Wait()                                      // that it was killed is no news
	<-f.read
	f.master = nil
	for f.t.Failed() && len(f.lines) > 0 {
		f.t.Log("php-fpm wrote:", <-f.lines)
	}
}

// says waits until a line of its log has a text in it.
func (f *fpm) says(text string) {
	f.t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case line := <-f.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			f.t.Fatalf("php-fpm does not say %q", text)
		}
	}
}

// script writes one, and gives the service that runs it.
func (f *fpm) script(name, code string) jobexec.Service {
	f.t.Helper()
	path := filepath.Join(f.folder, name+".php")
	must.Do(f.t, os.WriteFile(path, []byte("<?php\n"+code), 0o600))
	return jobexec.Service{Mode: jobexec.ModeFastCGI, Address: f.address, Script: path}
}
