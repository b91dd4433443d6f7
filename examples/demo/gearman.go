package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"jobd/store/storetest/freeport"
)

// gearmanJobs are submitted in the background, some before jobd is killed, the others behind it.
const gearmanJobs = 500

// gearman has programs of gearmand's, gearman and gearadmin, submit jobs and run them, and kills jobd among them.
//
//	gearman -f upper ──SUBMIT_JOB──► jobd ──INSERT──► table
//	gearman -w -f upper ◄─JOB_ASSIGN── jobd ◄──claim──┘
//
// Where jobd is killed, all that it has said to have taken is in the table; the next start goes on.
func (s *site) gearman(ctx context.Context) (err error) {
	ports := make([]int, 2)
	for i := range ports {
		if ports[i], err = freeport.Take(); err != nil {
			return err
		}
	}
	port, listen := ports[0], strconv.Itoa(ports[1])
	file := filepath.Join(s.dir, "jobs.db")
	config := fmt.Sprintf("name = gear\nhost = 127.0.0.1\nport = %d\nstore = sqlite\nsqlite_path = %s\njournal_dir = %s\n", port, file, s.journal("gear")) +
		"launcher = gearman\ngearman_listen = 127.0.0.1:" + listen + "\non_crash = requeue\n"
	if err := s.launch(ctx, "jobd", "gear", port, config); err != nil {
		return err
	}
	control := fmt.Sprintf("host = 127.0.0.1\nport = %d\n", port)
	if err := os.WriteFile(filepath.Join(s.dir, "jobctl.conf"), []byte(control), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "jobd serves Gearman's programs on 127.0.0.1:%s\n", listen)
	stop, err := s.gearmanWorkers(ctx, listen)
	if err != nil {
		return err
	}
	defer func() { stop() }()
	said, err := s.asks(ctx, "gearman", "a job in the foreground", "-h", "127.0.0.1", "-p", listen, "-f", "upper")
	if err != nil {
		return err
	}
	if said != "A JOB IN THE FOREGROUND" {
		return fmt.Errorf("the job in the foreground was answered with %q", said)
	}
	half := gearmanJobs / 2
	for first := 0; first < gearmanJobs; first += half {
		if _, err := s.asks(ctx, "gearman", linesOf(first, first+half), "-h", "127.0.0.1", "-p", listen, "-b", "-N", "-f", "upper"); err != nil {
			return err
		}
		if first > 0 {
			break
		}
		fmt.Fprintf(s.stdout, "\n%d jobs are submitted; jobd is killed, and started again\n", half)
		stop()
		d := s.daemons[0]
		if err := d.cmd.Process.Kill(); err != nil {
			return err
		}
		<-d.exited
		s.daemons = nil
		if err := s.launch(ctx, "jobd", "gear", port, config); err != nil {
			return err
		}
		if stop, err = s.gearmanWorkers(ctx, listen); err != nil {
			return err
		}
	}
	if _, err := s.asks(ctx, "gearadmin", "", "-h", "127.0.0.1", "-p", listen, "--status"); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	count := func(where string) (n int) {
		if err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM jobs WHERE "+where).Scan(&n); err != nil {
			return -1
		}
		return n
	}
	const ended = "status = 'done' AND result = 'ok' AND stdout = upper(workload)"
	if late := await(ctx, "all jobs to end", func() bool { return count(ended) == gearmanJobs+1 || err != nil }); late != nil {
		return errors.Join(late, err)
	}
	if all := count("1"); all != gearmanJobs+1 {
		return fmt.Errorf("the table has %d rows: %w", all, err)
	}
	for _, args := range [][]string{{"list-targets"}, {"show", "1"}, {"journal", "verify", "--journal", s.journal("gear")}} {
		if err := s.show(ctx, args...); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.stdout, "\ndemo: %d jobs of Gearman clients, %d verified; jobd was killed among them\n", gearmanJobs+1, count(ended))
	return err
}

// gearmanWorkers starts two of gearman's own workers, which make letters large, and gives what ends them.
func (s *site) gearmanWorkers(ctx context.Context, port string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all []*exec.Cmd
	stop = func() {
		cancel()
		for _, cmd := range all {
			_ = cmd.Wait() // it was killed
		}
		all = nil
	}
	for range 2 {
		cmd := exec.CommandContext(ctx, "gearman", "-h", "127.0.0.1", "-p", port, "-w", "-f", "upper", "--", "tr", "a-z", "A-Z")
		if err := cmd.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("%w (make demo-gearman installs gearman-tools)", err)
		}
		all = append(all, cmd)
	}
	return stop, await(ctx, "gearman's workers to connect", func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return false
		}
		defer conn.Close()
		said := make([]byte, 4096)
		n := 0
		if _, err = conn.Write([]byte("status\n")); err == nil {
			n, _ = conn.Read(said)
		}
		return strings.HasSuffix(strings.TrimSuffix(string(said[:n]), "\n.\n"), "\t2")
	})
}

// asks runs one of Gearman's programs, and prints the command and what it said.
func (s *site) asks(ctx context.Context, program, in string, args ...string) (said string, err error) {
	fmt.Fprintf(s.stdout, "\n$ %s %s\n", program, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	fmt.Fprintln(s.stdout, strings.TrimSuffix(string(out), "\n"))
	if err != nil {
		err = fmt.Errorf("%s: %w", program, err)
	}
	return string(out), err
}

// linesOf are workloads, a line each.
func linesOf(from, to int) string {
	var lines strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintln(&lines, "job", i)
	}
	return lines.String()
}
