package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"jobd/store/storetest/freeport"
)

// startTimeout is how long a server may take until it answers.
const startTimeout = 3 * time.Minute

// Options says how to run a server. The zero value is right for tests.
type Options struct {
	// Durable leaves the server its own defaults for flushing to disk, as
	// benchmarks need them. Otherwise a commit survives the server's death but not the machine's.
	Durable bool
	// Args are further arguments, as in "--max-allowed-packet=1M".
	Args []string
	// Clock has the server go by a clock that can be set, see SetClock. Only MariaDB can do that.
	Clock bool
}

// Server is one running database server. Its methods are not safe for concurrent use.
type Server struct {
	program program
	dir     string // as the server sees it
	port    int
	args    []string
	env     []string // nil: this process's
	process *process
	admin   *sql.DB
}

// Start makes a new data folder and starts a server on it. It returns when the server answers.
func Start(ctx context.Context, options Options) (*Server, error) {
	found, err := findProgram()
	if err != nil {
		return nil, fmt.Errorf("start database server: %w", err)
	}
	s := &Server{program: found}
	if err := s.prepare(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start database server: %w", err), s.Close())
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare makes the data folder and settles what the server is started with.
func (s *Server) prepare(ctx context.Context, options Options) error {
	sweep(s.program.outside(s.program.tempDir()))
	dir, err := s.program.makeDir()
	if err != nil {
		return err
	}
	s.dir = dir
	if err := s.program.initialize(ctx, filepath.Join(dir, "data")); err != nil {
		return err
	}
	if s.port, err = freeport.Take(); err != nil {
		return err
	}
	if options.Clock {
		if err := s.prepareClock(); err != nil {
			return err
		}
	}
	s.args = append(s.program.arguments(dir, s.port, options.Durable), options.Args...)
	s.admin, err = s.Open("")
	return err
}

// Restart starts the server again on the same data, socket and port, after a Stop or a Kill.
func (s *Server) Restart(ctx context.Context) error {
	log := s.program.outside(filepath.Join(s.dir, "server.log"))
	started, err := s.program.run(s.args, s.env, log)
	if err != nil {
		return fmt.Errorf("start database server: %w", err)
	}
	s.process = started
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.awaitAnswer(ctx); err != nil {
		return fmt.Errorf("start database server: %w; its log ends in:\n%s", err, tail(log))
	}
	return nil
}

// awaitAnswer asks until the server answers: nothing else tells that it is ready.
func (s *Server) awaitAnswer(ctx context.Context) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.admin.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-s.process.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("no answer in time: %w", err)
		}
	}
}

// Addr is the server's address, 127.0.0.1 and its port.
func (s *Server) Addr() string { return freeport.Address(s.port) }

// Port is the server's TCP port.
func (s *Server) Port() int { return s.port }

// Socket is the path of the server's unix socket.
func (s *Server) Socket() string { return s.program.outside(filepath.Join(s.dir, "s")) }

// IsMariaDB tells MariaDB from MySQL.
func (s *Server) IsMariaDB() bool { return s.program.root == "" }

// Admin is a connection pool of the server's administrator, in no database. Close ends it.
func (s *Server) Admin() *sql.DB { return s.admin }

// Stop ends the server in order and waits until it is gone.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would, with SIGKILL, and waits until it is gone.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	err := s.process.end(signal)
	if s.env != nil {
		forgetClock(s.process.command.Process.Pid)
	}
	s.process = nil
	return err
}

// Close ends the server and removes its data.
func (s *Server) Close() error {
	if s.admin != nil {
		_ = s.admin.Close() // fails where a connection's server is gone already
	}
	err := s.Kill()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.program.outside(s.dir)))
	}
	return err
}

// tail is the end of a log, enough to see why a server did not start.
func tail(path string) string {
	const most = 2000
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-most):])
}

// endTimeout is how long a server may take to end in order.
const endTimeout = 2 * time.Minute

// process is a running server.
type process struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it is gone
}

// run starts the server with its output in the file log. Its environment is this process's where env
// is nil.
func (p program) run(args, env []string, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command := exec.Command(p.path, args...)
	command.Dir, command.Env = "/", env
	command.SysProcAttr = p.attributes()
	command.Stdout, command.Stderr = output, output
	started := &process{command: command, ended: make(chan struct{})}
	result := make(chan error)
	go started.hold(result)
	if err := <-result; err != nil {
		return nil, err
	}
	return started, nil
}

// hold starts the process and waits for its end on one and the same thread: the
// kernel sends the death signal when the thread that forked ends (golang/go#27505).
func (p *process) hold(result chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	result <- err
	if err == nil {
		_ = p.command.Wait() // how it ended is in its log; that it ended is what counts
	}
	close(p.ended)
}

// end sends the signal and waits; a server that does not heed it is killed.
func (p *process) end(signal syscall.Signal) error {
	_ = p.command.Process.Signal(signal) // it may be gone already
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTimeout):
	}
	_ = p.command.Process.Kill()
	<-p.ended
	return fmt.Errorf("stop database server: still there %s after %s, killed", endTimeout, signal)
}

// dirPrefix begins the name of the folder of a server that process pid started.
func dirPrefix(pid int) string { return fmt.Sprintf("jobd-db-%d-", pid) }

// sweep removes the folders of servers whose starter is gone.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, "jobd-db-*-*"))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.Split(filepath.Base(dir), "-")[2])
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.RemoveAll(dir) // the next one tries again
		}
	}
}

// JobsTable is the jobs table as applications make it.
const JobsTable = "CREATE TABLE `jobs` (\n" +
	"  `id` int(10) UNSIGNED NOT NULL AUTO_INCREMENT,\n" +
	"  `target` char(16) NOT NULL,\n" +
	"  `time_created` int(10) UNSIGNED NOT NULL,\n" +
	"  `time_started` int(10) UNSIGNED NOT NULL DEFAULT 0,\n" +
	"  `time_finished` int(10) UNSIGNED NOT NULL DEFAULT 0,\n" +
	"  `status` enum('waiting','manual','accepted','running','done','ignored') NOT NULL DEFAULT 'waiting',\n" +
	"  `result` enum('ok','fail') DEFAULT NULL,\n" +
	"  `return_code` tinyint(3) UNSIGNED DEFAULT NULL,\n" +
	"  `sig` char(10) DEFAULT NULL,\n" +
	"  `stdout` mediumtext DEFAULT NULL,\n" +
	"  `stderr` mediumtext DEFAULT NULL,\n" +
	"  PRIMARY KEY (`id`),\n" +
	"  KEY `status_target_idx` (`status`, `target`, `id`)\n" +
	") ENGINE=InnoDB DEFAULT CHARSET=utf8"

// Account is a database account.
type Account struct{ User, Password string }

// CreateDatabase makes a database with the tables that the statements create.
func (s *Server) CreateDatabase(ctx context.Context, name string, tables ...string) error {
	statements := append([]string{"CREATE DATABASE " + name, "USE " + name}, tables...)
	if _, err := s.admin.ExecContext(ctx, strings.Join(statements, ";\n")); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// CreateAccount makes an account with exactly the given grants, as in "SELECT, UPDATE ON db.jobs".
func (s *Server) CreateAccount(ctx context.Context, account Account, grants ...string) error {
	for _, host := range []string{"%", "localhost"} {
		if _, err := s.admin.ExecContext(ctx, "CREATE USER ?@? IDENTIFIED BY ?", account.User, host, account.Password); err != nil {
			return fmt.Errorf("create account %s: %w", account.User, err)
		}
		for _, grant := range grants {
			if _, err := s.admin.ExecContext(ctx, "GRANT "+grant+" TO ?@?", account.User, host); err != nil {
				return fmt.Errorf("grant %s to %s: %w", grant, account.User, err)
			}
		}
	}
	return nil
}

// Limited makes the account that the daemons run with: it may SELECT and UPDATE
// the database's table jobs, and nothing else.
func (s *Server) Limited(ctx context.Context, database string) (Account, error) {
	account := Account{User: "u_" + database, Password: `it's "p@ss"/word?#%&:` + database}
	return account, s.CreateAccount(ctx, account, "SELECT, UPDATE ON "+database+".jobs")
}

// Open is a connection pool of the administrator's in the database, as the
// application has one; the caller closes it.
func (s *Server) Open(database string) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "unix", s.Socket(), database
	config.MultiStatements, config.InterpolateParams = true, true
	config.Logger = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", database, err)
	}
	return sql.OpenDB(connector), nil
}

// The clock of a server can be set, where it is started with Options.Clock: libfaketime stands
// between the server and the machine, and reads from a file how far ahead the server's clock is.
// What waits for a time to pass goes by the monotonic clock, which is left alone.

// clockFile is its name, in the server's folder.
const clockFile = "clock"

// fakeTimeLibrary is where Debian's package faketime has it, by the machine's sort.
const fakeTimeLibrary = "/usr/lib/*-linux-gnu*/faketime/libfaketimeMT.so.1"

// prepareClock makes the file, and settles what the server's environment needs.
func (s *Server) prepareClock() error {
	found, err := filepath.Glob(fakeTimeLibrary)
	if err == nil && len(found) == 0 {
		err = errors.New("it is not installed (apt-get install faketime, or: make deps)")
	}
	if err != nil {
		return fmt.Errorf("libfaketime: %w", err)
	}
	if !s.IsMariaDB() {
		return errors.New("the clock of a server that runs in a folder of its own can't be set")
	}
	s.env = append(os.Environ(), "LD_PRELOAD="+found[0], "FAKETIME_TIMESTAMP_FILE="+filepath.Join(s.dir, clockFile),
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1")
	return s.SetClock(0)
}

// SetClock sets the clock of a server that was started with Options.Clock ahead of the machine's, or,
// where that is negative, behind it. It counts from the server's next look at its clock on.
func (s *Server) SetClock(ahead time.Duration) error {
	file := filepath.Join(s.dir, clockFile)
	seconds := strconv.FormatFloat(ahead.Seconds(), 'f', 3, 64)
	if ahead >= 0 {
		seconds = "+" + seconds
	}
	err := os.WriteFile(file+".new", []byte(seconds+"\n"), 0o644)
	if err == nil {
		err = os.Rename(file+".new", file) // a server that reads it meanwhile has the one or the other
	}
	if err != nil {
		return fmt.Errorf("set the clock of the database server: %w", err)
	}
	return nil
}

// forgetClock removes what libfaketime leaves in the machine's shared memory.
func forgetClock(pid int) {
	for _, name := range []string{"faketime_shm_", "sem.faketime_sem_"} {
		_ = os.Remove(filepath.Join("/dev/shm", name+strconv.Itoa(pid))) // a server that ends in order removes it
	}
}
