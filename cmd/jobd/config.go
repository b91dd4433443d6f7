package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/net/principal"
	"jobd/store"
	"jobd/store/mysql"
)

// program is this program's name, with which the report of --check begins.
const program = "jobd"

// config is everything that jobd can be told; docs/configuration.md describes the keys. On SIGHUP
// jobd reads it again as a whole, and takes over the targets and what is said of their jobs, the
// launcher, the zone of schedules and the log levels.
type config struct {
	jobdaemon.Settings
	read *conf.Set // where all this stands

	name     string
	masters  masterConfig
	store    storeConfig
	time     timeConfig
	launcher launcherConfig
	gearman  gearmanConfig
	targets  map[string]int           // concurrency by name
	sections map[string]*targetConfig // what is said of some targets, by name
	jobs     jobsConfig

	journal journalConfig
}

// parseConfig reads the configuration: see jobdaemon.Settings.
func parseConfig(args, environ []string, stdout io.Writer) (c config, err error) {
	err = c.Read(about(), &c, args, environ, stdout)
	return c, err
}

// about says what the program is.
func about() conf.Program {
	return conf.Program{
		Name:    program,
		Summary: "jobd runs the jobs of a table's rows, for the targets it serves.",
		Prefix:  environPrefix,
		File:    "/etc/jobd.conf",
	}
}

// Register registers all keys, in the order of the help.
func (c *config) Register(set *conf.Set) {
	c.Listen.Register(set)
	c.HTTP.Register(set)
	c.gearman.register(set)
	set.Group("Name and masters")
	set.Add("name", "", "the worker's name towards masters, database and journal. It must be unique among the workers of a table", conf.NonEmpty(&c.name)).Without("`$JOBD_DEFAULT_NAME`, else the host's name")
	c.masters.register(set)
	c.Log.Register(set)
	c.store.register(set)
	c.time.register(set)
	addLauncher(set, "", func([]string) *launcherConfig { return &c.launcher })
	c.journal.register(set)
	c.jobs.register(set)
	set.Group("Jobs")
	set.AddNamed("targets.NAME", "", "a target, and how many of its jobs may run at once, at least 1. The name `null` is reserved", c.slots).Live().Without("at least one")
	c.addTarget(set)
}

// Validate finds what is wrong with values that could be decoded.
func (c *config) Validate(set *conf.Set, environ []string) {
	c.masters.validate(set)
	c.masters.tls.Own = c.Listen.TLS.Files // what clients are shown masters are shown too
	c.store.validate(set)
	c.time.validate(set, c.store.mysql.ClaimColumn)
	c.validateGearman(set)
	if !c.submits() {
		set.Require("", "launcher")
	}
	c.launcher.validate(set, nil, ofJobs(environ))
	c.journal.Validate(set)
	if len(c.targets) == 0 && !c.submits() {
		set.Missing("[targets]: at least one target is required, as in: name = 4")
	}
	c.validateTargets(set, ofJobs(environ))
	c.validateGearmanLaunchers(set)
	accounts := c.launcher.account != nil
	for _, target := range c.sections {
		accounts = accounts || target.launcher.account != nil
	}
	if accounts && set.Err() == nil && c.Listen.Host != "" && (c.Listen.AllowLocalhost || c.Listen.Password == "" && c.Listen.Principals == "") {
		set.Warn("host", "jobs have their own accounts (launcher.user), but the port accepts everybody on this host: jobs can command the worker; "+
			"set password or principals_file, and no always_allow_localhost")
	}
	if c.name == "" {
		c.name = defaultName(set, environ)
	}
	table := &c.store.mysql
	table.Worker, table.Uses, table.MaxOutput = c.name, c.time.uses, c.jobs.maxOutputBuffer
	c.read = set
}

// nameVariable gives the name of a worker that is given none otherwise. Unlike JOBD_NAME it leaves
// the file's key in force, so that the unit for several workers on a host can set it.
const nameVariable = environPrefix + "DEFAULT_NAME"

func defaultName(set *conf.Set, environ []string) string {
	for _, variable := range environ {
		if name, found := strings.CutPrefix(variable, nameVariable+"="); found && name != "" {
			return name
		}
	}
	name, err := os.Hostname()
	if err != nil {
		set.Bad("name", fmt.Sprintf("required, because the host's name is not known: %v", err))
	}
	return name
}

// slots takes one line of [targets]. The name null is reserved for
// rows without a target. A target whose value is wrong is there all the same: one mistake is told once.
func (c *config) slots(names []string) conf.Decode {
	name := names[0]
	return func(text string) error {
		if name == "null" {
			return errors.New("any name but null, which is reserved")
		}
		concurrency := 1
		err := conf.Int(&concurrency, 1, math.MaxInt)(text)
		if c.targets == nil {
			c.targets = map[string]int{}
		}
		c.targets[name] = concurrency
		if concurrency > manyJobs {
			return conf.Odd(fmt.Sprintf("%d jobs may run at once, each with a process of its own; is that what this host can bear?", concurrency))
		}
		return err
	}
}

// manyJobs is more jobs at once than a host usually has processes.
const manyJobs = 10000

// jobsConfig says how jobs are treated.
type jobsConfig struct {
	maxOutputBuffer int // bytes kept of stdout and of stderr, each
	prefetch        int // jobs claimed beyond the free slots of a target; onePerSlot: as many as it has slots
	pollInterval    time.Duration
	launchOffline   bool          // start jobs whose running is not mirrored yet
	requeueCrashed  bool          // run a job again whose outcome is unknown
	maxAttempts     int           // how often at most
	shutdownTimeout time.Duration // 0: no limit
	lostAfter       time.Duration
	handover        bool // leave running jobs to the runner on stop
}

// onePerSlot is the default of prefetch.
const onePerSlot = -1

func (c *jobsConfig) register(set *conf.Set) {
	set.Group("Jobs")
	set.Add("max_output_buffer", "1MiB", "how much is kept of a job's stdout, and of its stderr, up to 1GiB each; the rest is cut and marked", conf.Size(&c.maxOutputBuffer, 1, 1<<30))
	set.Add("prefetch", "1 per slot", "how many jobs of a target are claimed beyond its free slots; 0: none. Unless set, only where jobs take 0.25 s or less, then also as many as end in 0.1 s", c.decodePrefetch)
	set.Add("poll_interval", "30", "how often the worker looks for rows without a poke, give or take a fifth. 0: only when asked, at the start, when a master is reached and after an outage", conf.Duration(&c.pollInterval, 0))
	set.Group("Trouble")
	set.Add("launch_offline", "wait", "while the database is away: `wait` with starts, or `run` claimed jobs on the journal alone", conf.Either(&c.launchOffline, "wait", "run"))
	set.Add("on_crash", "fail", "a job of unknown outcome: `fail` it, or `requeue` it, with `JOBD_ATTEMPT=2` (3, …) and `JOBD_RECOVERED=1` in its environment", conf.Either(&c.requeueCrashed, "fail", "requeue"))
	set.Add("max_attempts", "3", "the most starts of a job of unknown outcome, with `on_crash = requeue`", conf.Int(&c.maxAttempts, 1, math.MaxInt))
	set.Add("shutdown_timeout", "30", "how long running jobs may go on after SIGTERM; then they get SIGTERM, and 5 s later SIGKILL. 0: no limit", conf.Duration(&c.shutdownTimeout, 0))
	set.Add("lost_after", "5m", "with a new journal: how long rows claimed under the worker's name are left alone, before their outcome counts as unknown", conf.Duration(&c.lostAfter, 0))
	set.Add("on_stop", "drain", "on SIGTERM `drain`, or `handover`: leave the jobs to the runner for the next start", conf.Either(&c.handover, "drain", "handover"))
}

func (c *jobsConfig) decodePrefetch(text string) error {
	if text == "1 per slot" {
		c.prefetch = onePerSlot
		return nil
	}
	if conf.Int(&c.prefetch, 0, math.MaxInt)(text) != nil {
		return errors.New("a whole number of at least 0, or: 1 per slot")
	}
	return nil
}

// masterConfig says which masters the worker registers with.
type masterConfig struct {
	hosts     string
	port      int
	unix      string
	addresses []string // host:port, or a unix socket's path; none: no master
	tls       conf.Trust
	scope     string // what a master may ask at most that nobody has verified
	reconnect time.Duration
}

func (c *masterConfig) register(set *conf.Set) {
	set.Add("master_host", "", "the master, or several: `a, b:7082`. The worker registers with each", conf.Text(&c.hosts))
	set.Add("master_port", "", "the port of masters listed without one. A master without any port is not used", conf.Int(&c.port, 1, 65535))
	set.Add("master_unix", "", "absolute path of the [unix socket](security.md#unix-sockets) of a master on this host, beside or in place of `master_host`", conf.Socket(&c.unix))
	set.Add("master_reconnect_timeout", "10", "the wait, with jitter, before a lost master is tried again; a duration", conf.Duration(&c.reconnect, time.Millisecond))
	c.tls.Register(set, "master_", "the masters", false, false)
	set.Add("master_scope", "admin", "the largest [scope](security.md#principals) of masters not verified by `master_tls = verify` or a socket", conf.OneOf(&c.scope, "status", "read", "submit", "run", "admin"))
}

// most is what a master may ask at most that nobody has verified.
func (c *masterConfig) most() principal.Scope {
	scope, _ := principal.ParseScope(c.scope) // as its key says, which allows no other words
	return scope
}

// validate builds the addresses. A host without a port, while there is no
// master_port, is none: that is how the original understood it.
func (c *masterConfig) validate(set *conf.Set) {
	c.tls.Validate(set, "master_")
	if c.unix != "" {
		c.addresses = append(c.addresses, c.unix)
	}
	for host := range strings.SplitSeq(c.hosts, ",") {
		host = strings.TrimSpace(host)
		if host == "" {
			continue
		}
		name, port, err := conf.SplitHost(host, c.port)
		switch {
		case strings.ContainsAny(host, "/@ \t"):
			set.Warn("master_host", "one entry is neither a name nor an address, and is not used; allowed: names and addresses, each with :port or without, as in: a, b:7082, [::1]:7081")
		case err != nil:
			set.Bad("master_host", set.Shown("master_host", host)+" is not allowed; allowed: names and addresses, each with :port or without, as in: a, b:7082, [::1]:7081")
		case port == 0 && !set.Given("master_port"):
			set.Warn("master_host", set.Shown("master_host", host)+" is not used: it has no port, and there is no master_port")
		case port != 0 && slices.Contains(c.addresses, net.JoinHostPort(name, strconv.Itoa(port))):
			set.Warn("master_host", set.Shown("master_host", host)+" stands there twice; the worker registers with it once")
		case port != 0:
			c.addresses = append(c.addresses, net.JoinHostPort(name, strconv.Itoa(port)))
		}
	}
}

// hostOf is the host of an address.
func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// The stores to choose from.
const (
	storeMySQL  = "mysql"
	storeSQLite = "sqlite"
)

// storeConfig says which table the jobs are in. The settings that both stores share
// are fields of mysql.
type storeConfig struct {
	kind       string // storeMySQL or storeSQLite
	mysql      mysql.Config
	tls        conf.Trust // of the server
	fetchLimit int        // most rows in one claim; 0: no limit of its own
	sqlitePath string
}

func (c *storeConfig) register(set *conf.Set) {
	table := &c.mysql
	set.Group("Table")
	set.Add("store", storeMySQL, "`mysql`, or `sqlite` for a table in a file", conf.OneOf(&c.kind, storeMySQL, storeSQLite))
	set.Add("mysql_host", "", "the server, or the path of its socket", c.decodeHost).Without("required for mysql")
	set.Add("mysql_port", "", "its port; a socket needs none", conf.Int(&table.Port, 1, 65535)).Without("required for mysql")
	set.Add("mysql_user", "", "the account; `GRANT SELECT, UPDATE` on the table is enough", conf.NonEmpty(&table.User)).Without("required for mysql")
	set.Add("mysql_password", "", "its password; it may be empty, but must be given", conf.Text(&table.Password)).Secret().Kept().Without("required for mysql")
	set.Add("mysql_server_public_key", "", "a file with the server's RSA key, for [`caching_sha2_password` from another host](security.md#the-password-of-the-database)", conf.NonEmpty(&table.ServerKey))
	c.tls.Register(set, "mysql_", "the database", true, true)
	set.Add("mysql_database", "", "the table's database", conf.NonEmpty(&table.Database)).Without("required for mysql")
	set.Add("mysql_table", "jobs", "the table; also `database.table`", conf.NonEmpty(&table.Table))
	set.Add("mysql_fetch_limit", "100", "the most rows in one claim; 0: no limit", conf.Int(&c.fetchLimit, 0, math.MaxInt))
	set.Add("mysql_max_connections", "8", "the most connections to the server, from 4 to 1000: one each for advisory locks, claims and the mirror, the rest for clients' requests", conf.Int(&table.MaxOpen, leastConnections, mostConnections))
	set.Add("sqlite_path", "", "the table's file; jobd makes it if it is missing", conf.NonEmpty(&c.sqlitePath)).Without("required for sqlite")
	set.Add("claim_column", "sig", "the column that holds a claim's token", conf.NonEmpty(&table.ClaimColumn))
}

// decodeHost takes a host, or the path of a socket. The driver takes IPv6 addresses without brackets.
func (c *storeConfig) decodeHost(text string) error {
	err := conf.Host(new(string), "mysql_port")(text)
	if strings.HasPrefix(text, "/") {
		err = nil
	}
	if err == nil {
		c.mysql.Host = strings.Trim(text, "[]")
	}
	return err
}

func (c *storeConfig) validate(set *conf.Set) {
	if store.IsTaken(c.mysql.ClaimColumn) {
		set.Bad("claim_column", set.Shown("claim_column", c.mysql.ClaimColumn)+" is not allowed: the column holds something else; allowed: sig, or a column of its own")
	}
	switch c.kind {
	case storeMySQL:
		c.validateMySQL(set)
		if set.Given("sqlite_path") {
			set.Warn("sqlite_path", "it is not used: the table is on a server, unless store = sqlite")
		}
	case storeSQLite:
		set.Require(" for store = sqlite", "sqlite_path")
	}
}

// The bounds of mysql_max_connections: below the least, claims, the mirror and clients' requests
// would wait for each other.
const (
	leastConnections = 4
	mostConnections  = 1000
)

func (c *storeConfig) validateMySQL(set *conf.Set) {
	keys := []string{"mysql_host", "mysql_port", "mysql_user", "mysql_password", "mysql_database"}
	if c.isSocket() {
		keys = []string{"mysql_host", "mysql_user", "mysql_password", "mysql_database"}
	}
	set.Require(" for store = mysql", keys...)
	c.tls.Validate(set, "mysql_")
	if c.isSocket() && c.tls.On {
		set.Warn("mysql_tls", "it is not used: mysql_host is a socket, where nobody is in between")
	}
	c.mysql.TLS, c.mysql.PreferTLS = c.tls.For(c.mysql.Host), c.tls.Prefers
	if c.tls.Prefers {
		set.Warn("mysql_tls", "preferred encrypts, but does not verify which server answers; mysql_tls = verify, with mysql_tls_ca, does")
	}
	parts := strings.Split(c.mysql.Table, ".")
	if len(parts) > 2 || parts[0] == "" || parts[len(parts)-1] == "" {
		if set.Given("mysql_table") && c.mysql.Table != "" {
			set.Bad("mysql_table", set.Shown("mysql_table", c.mysql.Table)+" is not allowed; allowed: table or database.table")
		}
	}
}

func (c *storeConfig) isSocket() bool { return strings.HasPrefix(c.mysql.Host, "/") }

// journalConfig says where a worker's journal is, and how it is kept.
type journalConfig struct {
	jobdaemon.Journal

	index bool // an index of jobs is kept beside it
}

func (c *journalConfig) register(set *conf.Set) {
	set.Group("Trouble")
	c.Of, c.Low = "worker", "no job is claimed"
	c.Register(set, "by the worker's name", ". Events that the table does not show yet stay")
	set.Add("journal_index", "yes", "whether the page and clients find jobs by status, time and words of their output, in an [index](operations.md#the-journal)", conf.YesNo(&c.index))
}

// makeDir says where the journal of the worker of that name is, and makes the folder, with mode
// 0700, if need be: journal_dir; else the state folder that systemd gives; else /var/lib/jobd/NAME
// or, where that can't be made, the same in the user's own state folder. The error names every
// folder that was tried. lookup gives a variable of the environment.
func (c *journalConfig) makeDir(name string, lookup func(variable string) string) (string, error) {
	return firstPrivate(c.candidates(name, lookup))
}

// firstPrivate is the first of the folders that can be made, or is, private and writable.
func firstPrivate(candidates []string) (string, error) {
	var tried []error
	for _, dir := range candidates {
		path, err := jobdaemon.MakePrivate(dir)
		if err == nil {
			return path, nil
		}
		tried = append(tried, cmp.Or(conf.Closed(err, dir), fmt.Errorf("%s: %w", dir, err)))
	}
	return "", fmt.Errorf("journal_dir: no folder for the journal can be written; give one with the key journal_dir\n%w", errors.Join(tried...))
}

// candidates are the folders to try. One that is configured, here or in systemd, has no
// alternative: a journal that moves is a journal lost.
func (c *journalConfig) candidates(name string, lookup func(variable string) string) []string {
	if c.Dir != "" {
		return []string{c.Dir}
	}
	if state, _, _ := strings.Cut(lookup("STATE_DIRECTORY"), ":"); state != "" {
		return []string{state}
	}
	folder := folderName(name)
	candidates := []string{filepath.Join("/var/lib/jobd", folder)}
	state := lookup("XDG_STATE_HOME")
	if home := lookup("HOME"); state == "" && home != "" {
		state = filepath.Join(home, ".local", "state")
	}
	if state != "" {
		candidates = append(candidates, filepath.Join(state, "jobd", folder))
	}
	return candidates
}

// folderName is a worker's name as the name of one folder: the name comes from outside and must not
// lead elsewhere.
func folderName(name string) string {
	name = strings.NewReplacer("/", "_", "\x00", "_").Replace(name)
	if strings.Trim(name, ".") == "" {
		return strings.Repeat("_", len(name))
	}
	return name
}
