package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
	jobnet "jobd/net"
)

// checkAll is --check: see jobdaemon.Settings.Look. A worker that is to start again asks the same
// of the binary that will follow it, and refuses where a start would end: it is the same process,
// so there would be no worker at all.
func checkAll(c config, mistakes error, stdout io.Writer) error {
	start := c.Check.Served != ""
	var parts []check.Part
	add := func(what string, possible bool, look func(context.Context) []check.Finding) {
		if possible {
			parts = append(parts, check.Part{What: what, Look: look})
		}
	}
	add("launcher", len(c.launcher.words) > 0, func(ctx context.Context) []check.Finding { return c.findLaunchers(ctx, start) })
	add("use_columns", c.time.uses.Any(), func(context.Context) []check.Finding { return c.findTime() })
	add("journal", c.name != "", func(ctx context.Context) []check.Finding { return c.checkJournal(ctx, start) })
	add("table", c.store.possible(), c.checkTable)
	for _, address := range c.masters.addresses {
		add("master "+address, !start && !conf.Unread(c.Listen.Password), func(ctx context.Context) []check.Finding { return c.checkMaster(ctx, address) })
	}
	return c.Look(program, mistakes, c.running, parts, stdout)
}

// running says which process works with the journal, and so with this configuration; "": none.
func (c *config) running() string {
	dir, exists, _ := c.findJournal()
	if !exists {
		return ""
	}
	words, _ := lockHolder(dir)
	return words
}

// checkJournal looks at the journal as a start would find it, and makes nothing. If start is set, a
// worker asks that will start again, and that has the journal now.
func (c *config) checkJournal(ctx context.Context, start bool) []check.Finding {
	dir, exists, tried := c.findJournal()
	if dir == "" {
		return []check.Finding{{
			Level: check.Wrong, What: "journal", Detail: strings.Join(tried, "; "),
			Remedy: "the key journal_dir gives another folder", Ends: true,
		}}
	}
	what := "journal " + dir
	var findings []check.Finding
	if !exists {
		findings = append(findings, check.Finding{What: what, Detail: "will be made"})
	}
	findings = append(findings, c.checkLock(what, dir, start)...)
	if closed := closedFile(dir); closed != nil {
		findings = append(findings, check.Finding{Level: check.Wrong, What: what, Detail: closed.Error(), Ends: true})
	} else if exists {
		findings = append(findings, checkHistory(ctx, what, dir)...)
	}
	findings = append(findings, c.checkRoom(what, dir)...)
	if archive := c.journal.log.ArchiveDir; archive != "" {
		f := check.Finding{What: "journal_archive_dir " + archive, Detail: "can be written"}
		if err := unix.Access(archive, unix.W_OK|unix.X_OK); err != nil {
			f.Level, f.Detail, f.Remedy = check.Wrong, err.Error(), "make it a folder that this account can write: old segments stay in the journal until then"
		}
		findings = append(findings, f)
	}
	return findings
}

// findJournal is the folder that a start would take, and whether it is there already; else why
// there is none.
func (c *config) findJournal() (dir string, exists bool, tried []string) {
	for _, candidate := range c.journal.candidates(c.name, os.Getenv) {
		dir, err := filepath.Abs(candidate)
		if err == nil {
			exists, err = couldWrite(dir)
		}
		if err == nil {
			return dir, exists, nil
		}
		tried = append(tried, cmp.Or(conf.Closed(err, candidate), fmt.Errorf("%s: %w", candidate, err)).Error())
	}
	return "", false, tried
}

// couldWrite tells whether a folder can be written, or made.
func couldWrite(dir string) (exists bool, err error) {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue
		case err != nil:
			return false, err
		case !info.IsDir():
			return false, fmt.Errorf("%s is no folder", at)
		}
		var system unix.Statfs_t
		if unix.Statfs(at, &system) == nil && (system.Type == unix.PROC_SUPER_MAGIC || system.Type == unix.SYSFS_MAGIC) {
			return false, fmt.Errorf("%s is the kernel's: no folder can be made there", at)
		}
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			return false, &fs.PathError{Op: "write", Path: at, Err: err}
		}
		if at == dir && info.Mode().Perm() != 0o700 && !ownedByMe(info) { // a start closes it to others
			return false, &fs.PathError{Op: "chmod", Path: at, Err: unix.EPERM}
		}
		return at == dir, nil
	}
}

// closedFile says which file of the journal is another account's, and closed to this one.
func closedFile(dir string) error {
	entries, _ := os.ReadDir(dir) // what can't be read is told by findJournal
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := entry.Info(); err != nil || ownedByMe(info) || unix.Access(path, unix.R_OK|unix.W_OK) == nil {
			continue
		}
		return conf.Closed(&fs.PathError{Op: "write", Path: path, Err: unix.EACCES}, dir)
	}
	return nil
}

// ownedByMe tells whether this account may change a folder's mode.
func ownedByMe(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	return !known || me == 0 || int(stat.Uid) == me
}

// checkLock says which process has the journal. It takes no lock, but reads the kernel's list.
func (c *config) checkLock(what, dir string, start bool) []check.Finding {
	holder, pid := lockHolder(dir)
	switch {
	case start && pid != os.Getppid():
		return []check.Finding{{
			Level: check.Wrong, What: what, Detail: "it is another one than the journal of the worker that is to start again, whose jobs would be lost sight of",
			Remedy: "leave journal_dir as it was, or stop the worker and start it", Ends: true,
		}}
	case pid == 0 || start:
		return nil
	}
	return []check.Finding{{What: what, Detail: "in use by " + holder + ": this worker, if it runs"}}
}

// lockHolder is the process that has the journal in a folder, in words and by its id, which it has
// written into the lock; 0 where there is none, or it can't be found.
func lockHolder(dir string) (words string, pid int) {
	path := filepath.Join(dir, "lock")
	var file unix.Stat_t
	signed, err := os.ReadFile(path)
	if _, none := fmt.Sscanf(string(signed), "process %d ", &pid); cmp.Or(err, none, unix.Stat(path, &file)) != nil {
		return "", 0
	}
	locks, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF
		fields := strings.Fields(line)
		if len(fields) > 5 && fields[1] == "FLOCK" && fields[4] == strconv.Itoa(pid) && strings.HasSuffix(fields[5], fmt.Sprintf(":%d", file.Ino)) {
			return fmt.Sprintf("process %d", pid), pid
		}
	}
	return "", 0
}

// checkHistory verifies what a start relies on.
func checkHistory(ctx context.Context, what, dir string) []check.Finding {
	r, err := replay.Open(dir)
	if err == nil {
		err = verify.Sound(ctx, r.Folder())
	}
	var damaged *journal.DamagedError
	switch {
	case errors.Is(err, replay.ErrNone), errors.Is(err, fs.ErrNotExist):
		return []check.Finding{{What: what, Detail: "empty; the first start begins the journal"}}
	case errors.As(err, &damaged):
		return []check.Finding{{
			Level: check.Wrong, What: what, Detail: err.Error(), Ends: true,
			Remedy: "keep the folder for whoever looks into it, and give the worker an empty one (docs/operations.md)",
		}}
	case err != nil:
		return []check.Finding{{Level: check.Wrong, What: what, Detail: cmp.Or(conf.Closed(err, dir), err).Error(), Ends: ctx.Err() == nil}}
	}
	newest, err := r.Newest(ctx)
	if err != nil {
		return []check.Finding{{Level: check.Wrong, What: what, Detail: err.Error()}}
	}
	return []check.Finding{{What: what, Detail: fmt.Sprintf("sound as far as a start relies on it, up to event %d", newest)}}
}

// checkRoom compares what the journal's disk has with what it needs.
func (c *config) checkRoom(what, dir string) []check.Finding {
	at := dir
	for free, total, err := check.Free(at); ; free, total, err = check.Free(at) {
		if err != nil && at != filepath.Dir(at) {
			at = filepath.Dir(at)
			continue
		}
		if err != nil {
			return []check.Finding{{Level: check.Wrong, What: what, Detail: err.Error()}}
		}
		f := check.Finding{What: what, Detail: fmt.Sprintf("%d MiB are free on its disk", free>>20)}
		if need := min(c.journal.minFree, total/10); free < need {
			f.Level, f.Remedy = check.Wrong, fmt.Sprintf("make room: below %d MiB no job is claimed (key journal_min_free)", need>>20)
		}
		return []check.Finding{f}
	}
}

// findLaunchers looks at the common launcher, and at those of targets. At a start nobody is
// connected to: a service that is not there holds up nothing but the jobs that need it.
func (c *config) findLaunchers(ctx context.Context, start bool) []check.Finding {
	var findings []check.Finding
	for what, launcher := range c.launchers() {
		switch _, _, wrong := parseService(launcher.Words); {
		case launcher.Mode.Requests():
			findings = append(findings, findService(ctx, what, launcher.Service, start))
		case wrong != nil || len(launcher.Words) == 0: // the configuration has said so, without a password that may stand in it
		default:
			findings = append(findings, findLauncher(what, launcher))
		}
	}
	return findings
}

func findLauncher(what string, launcher jobexec.Launcher) check.Finding {
	if err := launcher.Check(); err != nil {
		return check.Finding{Level: check.Wrong, What: what, Detail: "it can't be executed: " + err.Error(), Remedy: "mend the key launcher, or what it names", Ends: true}
	}
	detail := launcher.Words[0] + " can be executed in " + launcher.Dir
	if launcher.Mode.Pooled() {
		detail += "; launcher_mode is " + string(launcher.Mode) + ", which only a start can try"
	}
	return check.Finding{What: what, Detail: detail}
}

// findService connects to a service, and asks it for nothing.
func findService(ctx context.Context, what string, service jobexec.Service, start bool) check.Finding {
	network, address, host := addressOf(service)
	if start {
		return check.Finding{What: what, Detail: "jobs are requests to " + address}
	}
	f := check.Finding{What: what, Detail: address + " takes connections"}
	if err := connect(ctx, network, address, host); err != nil {
		f.Level, f.Detail = check.Warning, address+" can't be reached: "+jobnet.DialCause(err).Error()
		f.Remedy = "start it, or mend the key launcher; no job that needs it is claimed meanwhile"
	}
	return f
}

// addressOf is where a service takes connections, and whose certificate it is to show; "": none.
func addressOf(service jobexec.Service) (network, address, host string) {
	if service.Mode == jobexec.ModeFastCGI {
		if strings.HasPrefix(service.Address, "/") {
			return "unix", service.Address, ""
		}
		return "tcp", service.Address, ""
	}
	at, err := url.Parse(strings.ReplaceAll(service.URL, "{id}", "1"))
	if err != nil {
		return "tcp", "", "" // parseHTTP has refused it
	}
	port := map[string]string{"http": "80", "https": "443"}[at.Scheme]
	if at.Scheme == "https" {
		host = at.Hostname()
	}
	return "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port)), host
}

// connect makes a connection, with TLS where a host is named, and ends it.
func connect(ctx context.Context, network, address, host string) error {
	connection, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if host == "" {
		return nil
	}
	return tls.Client(connection, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
}

// checkMaster looks whether a master answers and takes the worker's password. It does not register.
func (c *config) checkMaster(ctx context.Context, address string) []check.Finding {
	f := check.Finding{What: "master " + address, Detail: "answers, and takes the password"}
	if c.Listen.Password == "" {
		f.Detail = "answers without a password"
	}
	switch err := c.askMaster(ctx, address); {
	case err == nil:
	case errors.Is(err, errPassword):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it refuses this worker's password", "give the same in the key password of both"
	case errors.Is(err, errNoMaster):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it is no master that listens there", "mend master_host and master_port: a master has port 7081 unless it is told otherwise"
	default:
		f.Level, f.Detail, f.Remedy = check.Wrong, "it can't be reached: "+err.Error(), "start it, or mend master_host and master_port; the worker runs without it, and is not poked"
	}
	return []check.Finding{f}
}

// What a peer that answers may be wrong with.
var (
	errPassword = errors.New("invalid password")
	errNoMaster = errors.New("no master")
)

func (c *config) askMaster(ctx context.Context, address string) error {
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{Password: c.Listen.Password, TLS: c.masters.tls.For(hostOf(address))})
	if err != nil {
		return err
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	data, err := link.Request(ctx, "status", nil) // has no effect
	var answer *jobnet.RemoteError
	switch {
	case errors.As(err, &answer) && strings.Contains(answer.Text, errPassword.Error()):
		return errPassword
	case errors.As(err, &answer), err == nil && !jobnet.FieldsOf(data).Has("workers"):
		return errNoMaster
	}
	return err
}
