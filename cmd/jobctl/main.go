// Command jobctl asks workers and masters, and reads journals, for operators and auditors.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/cmd/internal/version"
)

func main() {
	ctx, stop := exit.Interruptible(context.Background())
	defer stop()
	os.Exit(shell(ctx, os.Args[1:], surroundings{
		environ: os.Environ(), in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		width: width(os.Stdout, os.Getenv("COLUMNS")), now: time.Now, location: time.Local, sockets: "/run/jobd",
	}))
}

// width gives how many columns a terminal has at the moment; a number in COLUMNS counts before what
// the terminal says.
func width(file *os.File, given string) func() int {
	return func() int {
		if n, err := strconv.Atoi(given); err == nil && n > 0 {
			return n
		}
		n, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return n
	}
}

// surroundings are what a run of jobctl finds in the system.
type surroundings struct {
	environ     []string // as of os.Environ
	in          io.Reader
	out         io.Writer
	err         io.Writer
	terminal    bool        // out is one: tables get their lines, and colours
	width       func() int  // how many columns it has at the moment, 0 where nobody knows; may be nil
	bare        io.Writer   // the terminal itself, for a view that makes all texts harmless by itself; nil: out is none
	errTerminal bool        // err is one: somebody can be asked
	mark        string      // stands before and behind what may steer a terminal; see screen
	fail        func(error) // ends the run, which must not be a success
	now         func() time.Time
	location    *time.Location // of times that are told and given
	patience    time.Duration  // with each answer of a daemon; 0: queryTimeout
	sockets     string         // the folder of the daemons' sockets, which are tried where nothing says where to go; "": none
}

// program is one run of jobctl. The commands are its methods.
type program struct {
	surroundings
	config config
	set    *conf.Set
	log    *logging.Log
	asked  *operator.Daemon // see daemon
}

// run carries out the one command in args:
//
//	args ──► arrange ──► conf ──► the command ──► link or journal ──► out
//
// Its error knows its exit code.
func run(ctx context.Context, args []string, around surroundings) (err error) {
	p := &program{surroundings: around}
	defer p.hangUp()
	var line arranged
	p.set = newSet(p.environ, func(w io.Writer) bool { return usage(w, line.chosen) }, func(w io.Writer) { usageBelow(w, line.chosen) })
	p.config.register(p.set)
	if len(args) > 1 && args[0] == completeCommand {
		p.complete(args[1:])
		return nil
	}
	root := p.tree()
	defer func() { err = unknownUsage(root, args, err) }()
	if line, err = arrange(root, p.set.Args(args)); err != nil {
		return exit.With(exit.Usage, err)
	}
	p.set.Choose(line.profile)
	if err := p.parse(root, line); err != nil {
		return err
	}
	if p.log, err = logging.New(p.config.log, p.err); err != nil {
		return err
	}
	p.log.Warnings(p.set.Warnings())
	if p.config.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.config.timeout, exit.With(exit.Late, fmt.Errorf("no answer within %v", p.config.timeout)))
		defer cancel()
	}
	return line.chosen.Exec(ctx, line.args)
}

// note tells what is worth knowing beside what a command prints.
func (p *program) note(err error) { fmt.Fprintf(p.err, "jobctl: %v\n", err) }

// buffered has what print prints written in large pieces, save on a terminal, where somebody waits
// for each line.
func (p *program) buffered(print func() error) error {
	if p.terminal {
		return print()
	}
	out := p.out
	buffer := bufio.NewWriterSize(out, 64<<10)
	p.out = buffer
	defer func() {
		_ = buffer.Flush()
		p.out = out
	}()
	return print()
}

// parse reads flags, environment and file.
func (p *program) parse(root *cmd, line arranged) error {
	if err := p.set.Parse(line.global, p.environ, p.out); err != nil {
		return err
	}
	if err := line.setFlags(); err != nil {
		return err
	}
	p.config.validate(p.set)
	switch err := p.set.Err(); {
	case err != nil:
		return err
	case line.chosen == root:
		p.say("%s", overview)
		return exit.With(exit.Usage, errTold)
	case len(line.chosen.Subcommands) > 0:
		return wrongUsage("a command is missing; --help lists them")
	}
	return p.addressed(line.chosen)
}

// tree is all commands.
func (p *program) tree() *cmd {
	root := &cmd{
		Name:       "jobctl",
		ShortUsage: "[@PROFILE] COMMAND [arguments]",
		ShortHelp:  "jobctl asks jobd's workers and masters, and reads journals. Flags may stand anywhere.",
		FlagSet:    p.set.FlagSet(),
	}
	group := func(title string, members ...*cmd) {
		for _, c := range members {
			c.Group = title
		}
		root.Subcommands = append(root.Subcommands, members...)
	}
	group("look", p.status(), p.top(), p.ps(), p.queue(), p.failed(), p.show(), p.why(), p.tail(), p.health(), p.listTargets(), p.listWorkers(), p.memoryUsage())
	group("act on jobs", p.runManual(), p.runNow(), p.retry(), p.cancel(), p.sendSignal(), p.wait(), p.schedule())
	group("targets, and the worker itself",
		p.pause(), p.resume(), p.poll(), p.poke(), p.addTarget(), p.removeTarget(), p.setTargetConcurrency(), p.recycle(), p.reload(), p.restart())
	group("read what happened", p.journal())
	group("who may ask", p.token())
	group("about jobctl", help(), p.completion())
	illustrate(root, "")
	return root
}

// wrongUsage is an error of exit code 2.
func wrongUsage(format string, args ...any) error {
	return exit.With(exit.Usage, fmt.Errorf(format, args...))
}

// shell is a whole run of jobctl, as a shell sees it: run between checked files, terminals behind a
// screen, the error on stderr, the exit code.
//
//	run ──► screen, where it is a terminal ──► checked ──► stdout
//	run, its error ──► the same for stderr
func shell(ctx context.Context, args []string, around surroundings) int {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, errs := &checked{to: around.out, stop: stop}, &checked{to: around.err, stop: func(error) {}}
	around.out, around.err, around.fail = out, errs, out.fail
	around.mark = "\xff" + rand.Text() // begins with what is no UTF-8
	if around.terminal {
		around.bare = out.to
		s := screen.New(out, around.mark)
		defer s.Flush()
		around.out = s
	}
	if around.errTerminal {
		s := screen.New(errs, around.mark)
		defer s.Flush()
		around.err = s
	}
	err := out.failure(run(ctx, args, around))
	code := exit.Report(around.err, "jobctl", err)
	return exit.Code(errs.failure(exit.With(code, err)))
}

// checked remembers that a write failed: printing code looks at no error of a write, and a run whose output
// did not arrive must not end as a success. Where stdout takes nothing more, that ends the run.
type checked struct {
	to   io.Writer
	stop context.CancelCauseFunc

	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (c *checked) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		n, c.err = c.to.Write(p)
	}
	if c.err != nil {
		c.stop(c.err)
	}
	return n, c.err
}

// fail ends the run as a write that failed does.
func (c *checked) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.stop(err)
}

// failure is err with the failed write, where that is not what it is about.
func (c *checked) failure(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err == nil:
		return err
	case exit.Code(err) == exit.Success || errors.Is(err, c.err) || errors.Is(err, context.Canceled):
		return c.err
	}
	return errors.Join(err, c.err)
}

// clean is text in one line that steers nothing.
func clean(text string) string { return screen.Clean(text) }

// ours is a sequence that steers the terminal, marked as jobctl's own.
func (s surroundings) ours(sequence string) string { return s.mark + sequence + s.mark }

// The ports where a daemon listens if nothing else is said.
const (
	workerPort = 7080
	masterPort = 7081
)

// config is everything that jobctl can be told about how to reach a daemon.
type config struct {
	master      bool
	host        string
	socket      string // in place of host and port; "": not given, or not meant
	port        int
	masterPort  int // 0: not given
	password    string
	askPassword bool
	tls         conf.Trust
	log         logging.Config // of the console only
	output      string         // "table" or "json"
	precise     bool           // times to the microsecond, also for people
	timeout     time.Duration  // 0: no limit
}

func newSet(environ []string, usage func(io.Writer) bool, below func(io.Writer)) *conf.Set {
	return conf.New(conf.Program{
		Name:    "jobctl",
		Version: version.Version,
		Build:   version.Of().Text("jobctl"),
		Prefix:  "JOBCTL_",
		File:    defaultFile(environ),
		Usage:   usage,
		Below:   below,
	})
}

// defaultFile is ~/.jobctl.conf; "" for somebody without a home.
func defaultFile(environ []string) string {
	for _, variable := range environ {
		if home, found := strings.CutPrefix(variable, "HOME="); found && home != "" {
			return filepath.Join(home, ".jobctl.conf")
		}
	}
	return ""
}

func (c *config) register(set *conf.Set) {
	set.AddProfiles("host", "port", "master", "master_port", "password", "password_file", "tls", "tls_ca", "tls_name", "tls_cert", "tls_key", "socket")
	set.Add("master", "false", "talk to a master instead of a worker", conf.Bool(&c.master)).Switch()
	set.Add("host", "127.0.0.1", "the host of the daemon, or several masters: `a, b:7082`. The first that answers is asked, and a poke goes to all. `hostname` means the same", conf.Hosts(&c.host, "port")).Alias("hostname")
	set.Add("port", "", "its port", conf.Int(&c.port, 1, 65535)).Without("7080, with `master` 7081")
	set.Add("socket", "", "path of its [unix socket](security.md#unix-sockets), in place of `host` and `port`", conf.Socket(&c.socket)).
		Without("if none of the three is given, `/run/jobd/jobd.sock`, with `master` `jobd-master.sock`, is tried first")
	set.Add("master_port", "", "with `master`, its port in place of `port`, so that a file can have both", conf.Int(&c.masterPort, 1, 65535))
	set.Add("password", "", "the password. The flag `--password` takes no value: it asks", conf.Text(&c.password)).Switch().Secret().Kept()
	c.tls.Register(set, "", "the daemon", true, false)
	set.Add("log_level", "warn", "what goes to stderr: trace, debug, info, warn or error", conf.Level(&c.log.ConsoleLevel))
	set.Add("output", "table", "`table`, or `json` for programs", conf.OneOf(&c.output, "table", "json"))
	set.Add("precise", "false", "times to the microsecond, with their date, on a terminal too", conf.Bool(&c.precise)).Switch()
	set.Add("timeout", "", "how long a command may take in all; 0: no limit. Without it [each answer may take 10 s](jobctl.md#how-long-it-waits)", conf.Duration(&c.timeout, 0))
}

// takesNoPassword is what is said of --password with a value.
const takesNoPassword = "takes no value: it asks, so that nobody sees the password in the list of processes"

func (c *config) validate(set *conf.Set) {
	if set.Given("password") && set.FromFlag("password") {
		if c.password != "true" {
			set.Bad("password", takesNoPassword)
		}
		c.password, c.askPassword = "", true
	}
	c.tls.Validate(set, "")
	c.choosePort(set)
	c.chooseSocket(set)
	c.keepPassword(set)
	if strings.Contains(c.host, ",") && !c.master {
		set.Bad("host", "several are masters; use --master, or give the one worker that is meant")
	}
}

// choosePort finds the port of the daemon that is meant. A --port is meant as it is. Else master_port
// is the master's, unless the environment has a port and the file the master_port; and without one a
// port of the file is the master's, too, as it ever was: but in a profile only if it is that of a
// master.
func (c *config) choosePort(set *conf.Set) {
	overruled := set.FromFlag("port") || set.Given("port") && !set.FromFile("port") && set.FromFile("master_port")
	switch {
	case c.master && c.masterPort != 0 && (!overruled || set.FromFlag("master_port")):
		c.port = c.masterPort
	case set.FromFile("port") && c.master && set.Profile() != "" && !set.FromFile("master"):
		c.port = masterPort
	case set.Given("port"):
	case c.master:
		c.port = masterPort
	default:
		c.port = workerPort
	}
}

// keepPassword drops the password of a profile where the command line names another host: no host
// hears another one's.
func (c *config) keepPassword(set *conf.Set) {
	if set.Profile() != "" && (set.FromFlag("host") || set.FromFlag("socket")) && c.password != "" && set.FromFile("password") {
		c.password = ""
		set.Warn("host", "the password of @"+clean(set.Profile())+" is not sent to a host that the command line names; --password asks for one")
	}
}

// chooseSocket drops a socket where a closer source names a host or a port.
func (c *config) chooseSocket(set *conf.Set) {
	flag := set.FromFlag("host") || set.FromFlag("port")
	closer := set.Given("host") && !set.FromFile("host") || set.Given("port") && !set.FromFile("port")
	switch {
	case flag && set.FromFlag("socket"):
		set.Bad("socket", "with --host or --port it is ambiguous; give one of them")
	case flag || closer && set.FromFile("socket"):
		c.socket = ""
	}
}

// first is a socket that is tried where nothing says where to go; "": none.
func (p *program) first() string {
	c, given := &p.config, slices.ContainsFunc([]string{"host", "port", "socket"}, p.set.Given)
	if given || c.master && c.masterPort != 0 || c.tls.On || p.sockets == "" {
		return ""
	}
	path := filepath.Join(p.sockets, "jobd.sock")
	if c.master {
		path = filepath.Join(p.sockets, "jobd-master.sock")
	}
	var socket unix.Stat_t
	if err := unix.Lstat(path, &socket); err == nil && socket.Uid != 0 && int(socket.Uid) != os.Geteuid() {
		return "" // jobs of jobd's account can make one there, too: systemd's is root's
	}
	return path
}

// addresses are where the daemon is; more than one are those of masters.
func (c *config) addresses() (list []string) {
	if c.socket != "" {
		return []string{c.socket}
	}
	for host := range strings.SplitSeq(c.host, ",") {
		name, port, _ := conf.SplitHost(strings.TrimSpace(host), c.port) // as Hosts took it
		list = append(list, net.JoinHostPort(name, strconv.Itoa(port)))
	}
	return list
}

// queryTimeout is how long a daemon may take for an answer, where no --timeout says how long the
// whole run may take.
const queryTimeout = 10 * time.Second

// daemon is the worker or master that this run is about.
func (p *program) daemon() *operator.Daemon {
	if p.asked != nil {
		return p.asked
	}
	patience := queryTimeout
	switch {
	case p.set.Given("timeout"): // the whole run has a limit, or none was wanted
		patience = 0
	case p.surroundings.patience > 0:
		patience = p.surroundings.patience
	}
	addresses := p.config.addresses()
	config := operator.Config{
		Address: addresses[0], Others: addresses[1:], First: p.first(), Master: p.config.master, Password: p.config.password, TLS: p.config.tls.For,
		Patience: patience, Logger: p.log.Logger,
	}
	if p.config.askPassword {
		config.Ask = sync.OnceValues(func() (string, error) { return p.secret("password") })
	}
	p.asked = operator.New(config)
	return p.asked
}

// hangUp ends the link to it.
func (p *program) hangUp() {
	if p.asked != nil {
		p.asked.Close()
	}
}

// askFor sends a request to the daemon and decodes its answer, which it prints as it came if the
// output is to be JSON.
func (p *program) askFor(ctx context.Context, typ string, data, into any) error {
	d := p.daemon()
	answer, err := d.Ask(ctx, typ, data)
	if err != nil {
		return err
	}
	if p.json() {
		p.say("%s\n", answer)
	}
	return d.Understand(typ, answer, into)
}

// json tells whether the answer's data is the output.
func (p *program) json() bool { return p.config.output == "json" }

// secret asks for a password or token: without echo on a terminal, else it is the first line of stdin.
func (p *program) secret(name string) (string, error) {
	if file, ok := p.in.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(p.err, "%s%s: ", strings.ToUpper(name[:1]), name[1:])
		secret, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(p.err)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		return string(secret), nil
	}
	line, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil && (err != io.EOF || line == "") {
		return "", fmt.Errorf("read %s from stdin: %w", name, err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// addressed refuses a command that only the other kind of daemon answers.
func (p *program) addressed(c *cmd) error {
	instead := map[string]string{"poll": "poke", "poke": "poll", "list-workers": "list-targets"}[c.Name]
	switch {
	case p.config.master && c.Only == "worker":
		return wrongUsage("%s: only a worker knows this; omit --master%s", c.Name, when(instead != "", ", or use "+instead))
	case !p.config.master && c.Only == "master":
		return wrongUsage("%s: only a master knows this; use --master, or %s for a worker", c.Name, instead)
	}
	return nil
}
