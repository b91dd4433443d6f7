package dbserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// rootVariable names the folder that holds a MySQL to be used instead of MariaDB.
const rootVariable = "JOBD_TEST_MYSQL_ROOT"

// chrootUser is the account that MySQL runs as inside of its folder: mysqld refuses to be root, and
// the folder knows no user of that name. Any number nobody has will do.
const chrootUser = 64321

// program is the server's executable and how it is run.
type program struct {
	path string              // of the server, as seen inside of root
	root string              // MySQL's folder, "" for MariaDB
	as   *syscall.Credential // the account that it runs as; nil: as this process
}

// findProgram looks for the server that the environment asks for.
func findProgram() (program, error) {
	root := os.Getenv(rootVariable)
	if root == "" {
		return findMariaDB()
	}
	found := program{path: "/usr/sbin/mysqld", root: root, as: &syscall.Credential{Uid: chrootUser, Gid: chrootUser}}
	if _, err := os.Stat(found.outside(found.path)); err != nil {
		return program{}, fmt.Errorf("%s=%s holds no MySQL (make one with tools/mysql-chroot.sh): %w", rootVariable, root, err)
	}
	if os.Geteuid() != 0 {
		return program{}, fmt.Errorf("%s is set, but only root can change into %s", rootVariable, root)
	}
	return found, nil
}

func findMariaDB() (program, error) {
	const advice = "apt-get install mariadb-server, or: make deps"
	path, err := lookPath("mariadbd")
	if err != nil {
		return program{}, fmt.Errorf("MariaDB is not installed (%s): %w", advice, err)
	}
	if os.Geteuid() != 0 {
		return program{path: path}, nil
	}
	account, err := user.Lookup("mysql")
	if err != nil {
		return program{}, fmt.Errorf("MariaDB's account is missing (%s): %w", advice, err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return program{}, fmt.Errorf("MariaDB's account: %w", err)
	}
	return program{path: path, as: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// lookPath also looks where Debian keeps servers and an ordinary user's PATH does not.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if path, sbinErr := exec.LookPath("/usr/sbin/" + name); sbinErr == nil {
		return path, nil
	}
	return "", err
}

// outside is a path of the server's as this process sees it.
func (p program) outside(path string) string {
	if p.root == "" {
		return path
	}
	return filepath.Join(p.root, path)
}

// tempDir is where the servers' folders are, as the server sees it.
func (p program) tempDir() string {
	if p.root == "" {
		return os.TempDir()
	}
	return "/tmp"
}

// makeDir makes the folder for one server, owned by the account that it runs as.
func (p program) makeDir() (string, error) {
	parent := p.tempDir()
	dir, err := os.MkdirTemp(p.outside(parent), dirPrefix(os.Getpid()))
	if err != nil {
		return "", err
	}
	if p.as != nil {
		if err := os.Chown(dir, int(p.as.Uid), int(p.as.Gid)); err != nil {
			return "", err
		}
	}
	return filepath.Join(parent, filepath.Base(dir)), nil
}

// initialize fills a new data folder, with a copy of one that was made before where there is one: to make
// one takes longer than all else that a server needs.
func (p program) initialize(ctx context.Context, data string) error {
	kept := p.kept()
	if kept == "" {
		return p.makeData(ctx, data)
	}
	if copyData(ctx, kept, data) == nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(data), p.makeData(ctx, data)); err != nil {
		return err
	}
	partial := fmt.Sprintf("%s.%d", kept, os.Getpid())
	if os.MkdirAll(filepath.Dir(kept), 0o755) == nil && copyData(ctx, data, partial) == nil {
		_ = os.Rename(partial, kept) // another process may have been faster
	}
	return os.RemoveAll(partial)
}

// kept is where a data folder without data is kept, by the server that made it; "" where none is: in
// MySQL's stands which server it is.
func (p program) kept() string {
	cache, err := os.UserCacheDir()
	server, statErr := os.Stat(p.path)
	if p.root != "" || err != nil || statErr != nil {
		return ""
	}
	return filepath.Join(cache, "jobd", fmt.Sprintf("mariadb-data-%d-%d", server.Size(), server.ModTime().Unix()))
}

// copyData copies a data folder; most of it is a log of zeros, which take no room in the copy.
func copyData(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return exec.CommandContext(ctx, "cp", "-aT", "--sparse=always", from, to).Run()
}

// makeData makes a data folder.
func (p program) makeData(ctx context.Context, data string) error {
	args := []string{"--no-defaults", "--initialize-insecure", "--datadir=" + data}
	path := p.path
	if p.root == "" {
		var err error
		if path, err = lookPath("mariadb-install-db"); err != nil {
			return fmt.Errorf("MariaDB is not complete (apt-get install mariadb-server): %w", err)
		}
		args = []string{"--no-defaults", "--datadir=" + data, "--skip-test-db", "--auth-root-authentication-method=normal"}
	}
	command := exec.CommandContext(ctx, path, args...)
	command.Dir = "/"
	// In a temporary folder of its own: a server that starts removes the temporary tables that it
	// finds, which may be another's.
	command.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(data))
	command.SysProcAttr = p.attributes()
	command.SysProcAttr.Pdeathsig = 0 // it ends soon enough, and no thread stays for it
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initialize %s: %w: %s", data, err, bytes.TrimSpace(output))
	}
	return nil
}

// arguments is what a server is started with.
func (p program) arguments(dir string, port int, durable bool) []string {
	args := []string{
		"--no-defaults",
		"--datadir=" + filepath.Join(dir, "data"),
		"--socket=" + filepath.Join(dir, "s"),
		"--pid-file=" + filepath.Join(dir, "pid"),
		"--tmpdir=" + dir,
		"--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(port),
		"--skip-name-resolve",
		"--skip-log-bin",
		"--performance-schema=OFF",
	}
	if p.root != "" {
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=")
	}
	if !durable {
		args = append(args, "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=OFF")
	}
	return args
}

// attributes makes a child that runs as it should and dies with this process. The
// kernel forgets the death signal of a process that changes its user by itself:
// so the server does not get --user, it is that user from the start.
func (p program) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: p.root, Credential: p.as, Pdeathsig: syscall.SIGKILL}
}
