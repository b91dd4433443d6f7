package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"jobd/store/storetest/freeport"
)

//go:embed launch.sh
var launcher []byte

// site is the running system: the daemons, their files, and the way to ask them.
type site struct {
	dir     string // everything is in here
	bin     string // the programs
	oracle  string // launch.sh appends the id of every job that it starts
	stdout  io.Writer
	daemons []*daemon
}

// daemon is one running program.
type daemon struct {
	name   string
	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{} // closed when it is gone
}

// workers and their targets: they share one, and have one each of their own.
var workers = []struct{ name, targets string }{
	{"north", "shared = 4\nnorth = 4\nlater = 2\n"},
	{"south", "shared = 4 ; the same target here\nsouth = 4\nlater = 2\n"},
}

// later is what both say of the jobs that come again.
const later = "\n[target later]\nattempts = 2 ; a job that fails has one more\nbackoff = 1s\n"

const password = `demo "only"; nobody else`

// start writes the configuration files and starts a master and both workers.
func (s *site) start(ctx context.Context, tableSettings string) error {
	script := filepath.Join(s.dir, "launch.sh")
	if err := os.WriteFile(script, launcher, 0o755); err != nil {
		return err
	}
	masterPort, err := freeport.Take()
	if err != nil {
		return err
	}
	listen := func(port int) string {
		return fmt.Sprintf("host = 127.0.0.1 ; this machine only\nport = %d\npassword = %s\nlog_level_console = info\n", port, strconv.Quote(password))
	}
	pagePort, err := freeport.Take()
	if err != nil {
		return err
	}
	page := net.JoinHostPort("127.0.0.1", strconv.Itoa(pagePort))
	config := listen(masterPort) + "http_listen = " + page + "\nalways_allow_localhost = true ; the page asks nobody here who it is\njournal_dir = " + s.journal("master") + "\n"
	if err := s.launch(ctx, "jobd-master", "master", masterPort, config); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "the page of it all: http://%s/\n", page)
	for _, w := range workers {
		port, err := freeport.Take()
		if err != nil {
			return err
		}
		config := "# written by the demo\nname = " + w.name + "\n" + listen(port) + tableSettings +
			fmt.Sprintf("master_host = 127.0.0.1\nmaster_port = %d\nmaster_reconnect_timeout = 1\n", masterPort) +
			fmt.Sprintf("launcher = %s %s {id}\njournal_dir = %s\n", script, s.oracle, s.journal(w.name)) +
			"use_columns = all\n\n[targets]\n" + w.targets + later
		if err := s.launch(ctx, "jobd", w.name, port, config); err != nil {
			return err
		}
	}
	control := fmt.Sprintf("master = 1\nhost = 127.0.0.1\nport = %d\npassword = %s\n", masterPort, strconv.Quote(password))
	if err := os.WriteFile(filepath.Join(s.dir, "jobctl.conf"), []byte(control), 0o600); err != nil {
		return err
	}
	return await(ctx, "both workers to register with the master", func() bool {
		list, err := s.jobctl(ctx, "list-workers")
		return err == nil && strings.Contains(list, "north") && strings.Contains(list, "south")
	})
}

func (s *site) journal(worker string) string { return filepath.Join(s.dir, "journal-"+worker) }

// launch starts a daemon with a configuration file of its own and waits until it accepts
// connections.
func (s *site) launch(ctx context.Context, program, name string, port int, config string) error {
	file := filepath.Join(s.dir, name+".conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, program), "--config", file)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which then stops them in order
	if err := cmd.Start(); err != nil {
		log.Close()
		return fmt.Errorf("start %s: %w (make build makes it)", program, err)
	}
	d := &daemon{name: name, cmd: cmd, log: log, exited: make(chan struct{})}
	s.daemons = append(s.daemons, d)
	go func() {
		defer close(d.exited)
		_ = cmd.Wait() // its log tells why
	}()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return await(ctx, program+" "+name+" to accept connections", func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// stop ends the daemons, workers first, and shows their logs where something went wrong.
func (s *site) stop(stdout io.Writer, failed bool) {
	for _, d := range slices.Backward(s.daemons) {
		d.stop()
		if failed {
			said, _ := os.ReadFile(d.log.Name())
			fmt.Fprintf(stdout, "\n--- what %s said ---\n%s", d.name, said)
		}
		d.log.Close()
	}
	s.daemons = nil
}

// stop asks until the daemon is gone: every time after the first means at once, also to its jobs.
func (d *daemon) stop() {
	insist := time.After(10 * time.Second)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
		select {
		case <-d.exited:
			return
		case <-again.C:
		case <-insist:
			_ = d.cmd.Process.Kill()
			<-d.exited
			return
		}
	}
}

// jobctl runs jobctl with the demo's configuration and gives what a terminal would show.
func (s *site) jobctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "jobctl"),
		append([]string{"--config", filepath.Join(s.dir, "jobctl.conf")}, args...)...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("jobctl %s: %w: %s", args[0], err, said)
	}
	return string(said), err
}

// show runs jobctl and prints the command and what it said.
func (s *site) show(ctx context.Context, args ...string) error {
	fmt.Fprintf(s.stdout, "\n$ jobctl %s\n", strings.Join(args, " "))
	said, err := s.jobctl(ctx, args...)
	fmt.Fprint(s.stdout, said)
	return err
}

// await tries a condition until it holds or the context ends.
func await(ctx context.Context, what string, condition func() bool) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}
