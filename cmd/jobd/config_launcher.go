package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/systemd"
	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
)

// environPrefix begins the names of jobd's own variables. Jobs don't get them: there may
// be passwords among them.
const environPrefix = "JOBD_"

// launcherConfig says how jobs are started: all, or those of one target. That begins as a copy of the
// common one, and is told what is said of the target alone.
type launcherConfig struct {
	prefix  string // of its keys: that of its target's section; "": it is the common one
	command string // or what a request is sent to
	split   string // "spaces" or "shell"
	mode    string // as given: of a command only
	secret  string // signs requests over HTTP
	user    string
	group   string
	extra   []string // variables of its own
	keep    jobexec.Keep

	words   []string // the command; {id} in them is still to be replaced
	dir     string   // absolute
	env     []string // the whole environment, as of os.Environ
	account *proc.Account
	runs    jobexec.Mode // how it runs jobs, by command and mode together; "": there is a mistake
	service jobexec.Service
}

// The bounds of keys about kept processes.
const (
	leastMemory = 1 << 20 // less than any interpreter has
	mostMemory  = 1 << 50
	longestBoot = time.Hour
)

// addLauncher declares the keys of a launcher: of the common one, or, behind a prefix, of a target's
// own, for which nothing counts by default. of gives the one that a key's names stand for.
func addLauncher(set *conf.Set, prefix string, of func(names []string) *launcherConfig) {
	add := func(key, def, usage string, field func(l *launcherConfig) conf.Decode) *conf.Setting {
		if prefix != "" {
			def = ""
		}
		return set.AddNamed(prefix+key, def, usage, func(names []string) conf.Decode { return field(of(names)) }).Live()
	}
	command, folder, account, group := "required", "where jobd was started", "jobd's own", "Executors"
	usage := "the command that runs a job, split into words; then `{id}` in every word becomes the job's id. Or the address of a [service](executors.md): `http://HOST/PATH`, `https://HOST/PATH`, `fastcgi:SOCKET SCRIPT`, `fastcgi:HOST:PORT SCRIPT`. Or `gearman`: [Gearman workers](gearman.md) run it"
	rights := "the [account](security.md#jobs-of-another-account) of its jobs, by name or uid; not 0: write `root`"
	variable := "an environment variable for it, added to jobd's own except `JOBD_…`"
	if prefix == "" {
		set.Group("Jobs")
	} else {
		rights, variable = "the account of its jobs", "an environment variable for it, besides jobd's own"
		command, folder, account, group = "the common one", "that of the common one", "that of the common one", "-"
		usage = "a command or service of its own"
	}
	add("launcher", "", usage,
		func(l *launcherConfig) conf.Decode { return conf.NonEmpty(&l.command) }).OwnQuotes().Without(command)
	if prefix == "" {
		add("launcher_split", "spaces", "`spaces`: words end at spaces and quotes are ordinary characters. `shell`: quotes and `\\` work as in a shell",
			func(l *launcherConfig) conf.Decode { return conf.OneOf(&l.split, "spaces", "shell") })
	}
	add("launcher.cwd", "", "the folder it runs in",
		func(l *launcherConfig) conf.Decode { return conf.NonEmpty(&l.dir) }).Without(folder)
	add("launcher.user", "", rights,
		func(l *launcherConfig) conf.Decode { return conf.NonEmpty(&l.user) }).Without(account)
	add("launcher.group", "", "another primary group for that account, by name or gid",
		func(l *launcherConfig) conf.Decode { return conf.NonEmpty(&l.group) }).Without("the account's")
	set.AddNamed(prefix+"launcher.env.NAME", "", variable, func(names []string) conf.Decode {
		return of(names).variable(names[len(names)-1])
	}).Live()
	set.Group(group)
	add("launcher_mode", string(jobexec.ModeProcess), "how the command runs a job: as a `process` of its own, a `fork` of one, or a turn in a `pool`; not with a service",
		func(l *launcherConfig) conf.Decode {
			return conf.OneOf(&l.mode, string(jobexec.ModeProcess), string(jobexec.ModeFork), string(jobexec.ModePool))
		})
	add("max_jobs", "0", "`fork` and `pool`: jobs after which a process is replaced; 0: never",
		func(l *launcherConfig) conf.Decode { return conf.Int(&l.keep.MaxJobs, 0, math.MaxInt32) })
	add("max_age", "0", "`fork` and `pool`: age at which a process is replaced, in whole seconds; 0: never",
		func(l *launcherConfig) conf.Decode { return orNever(&l.keep.MaxAge) })
	add("max_memory", "0", "`fork` and `pool`: resident memory beyond which a process is replaced, from 1MiB; 0: never",
		func(l *launcherConfig) conf.Decode { return decodeMemory(&l.keep.MaxMemory) })
	add("idle_timeout", "0", "`fork` and `pool`: how long a process may be without a job before it ends, in whole seconds; 0: for ever",
		func(l *launcherConfig) conf.Decode { return orNever(&l.keep.IdleTimeout) })
	add("boot_timeout", "30", "`fork` and `pool`: how long a process may take to get ready, from 1s to 1h",
		func(l *launcherConfig) conf.Decode { return conf.WholeSeconds(&l.keep.BootTimeout, longestBoot) })
	add("launcher_watch", "false", "`fork` and `pool`: replace processes when a file named in the command has changed, [not files that it loads](executors.md#a-new-version-of-the-application)",
		func(l *launcherConfig) conf.Decode { return conf.Bool(&l.keep.Watch) })
	add("launcher_secret", "", "signs [requests over HTTP](executors-http.md)",
		func(l *launcherConfig) conf.Decode { return conf.NonEmpty(&l.secret) }).Secret().Kept()
}

// orNever takes whole seconds, or 0 for never.
func orNever(field *time.Duration) conf.Decode {
	return func(text string) error {
		if length, err := conf.ParseDuration(text); err == nil && length == 0 {
			*field = 0
			return nil
		}
		if err := conf.WholeSeconds(field, conf.Longest)(text); err != nil {
			return fmt.Errorf("0 for never, %w", err)
		}
		return nil
	}
}

func decodeMemory(field *int64) conf.Decode {
	return func(text string) error {
		if conf.Size(field, 0, 0)(text) == nil || conf.Size(field, leastMemory, mostMemory)(text) == nil {
			return nil
		}
		return errors.New("0 for never, or a size such as 256MiB, from 1MiB to 1PiB")
	}
}

// variable takes one variable of its environment.
func (c *launcherConfig) variable(name string) conf.Decode {
	return func(text string) error {
		if strings.ContainsRune(text, 0) {
			return errors.New("any text without NUL bytes")
		}
		c.extra = append(c.extra, name+"="+text)
		return nil
	}
}

// validate finds what is wrong with a launcher. What is not said of a target's own is as the common
// one has it; of the common one, common is nil.
func (c *launcherConfig) validate(set *conf.Set, common *launcherConfig, environ []string) {
	own := func(key string) bool { return common == nil || set.Given(c.prefix+key) }
	if own("launcher") {
		c.validateWords(set)
	} else {
		c.words = common.words
	}
	c.resolve(set)
	if own("launcher.cwd") {
		c.validateDir(set)
	} else {
		c.dir = common.dir
	}
	c.env = withVariables(environ, c.validateAccount(set))
	if common != nil {
		c.env = withVariables(c.env, common.extra)
	}
	c.env = withVariables(c.env, c.extra)
}

// withVariables is an environment with some variables more, or with other values.
func withVariables(environ, variables []string) []string {
	return append(slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.ContainsFunc(variables, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	}), variables...)
}

// ofJobs is an environment without what is for jobd alone.
func ofJobs(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		return strings.HasPrefix(variable, environPrefix) || systemd.IsOwn(variable)
	})
}

func (c *launcherConfig) validateWords(set *conf.Set) {
	if c.command == "" {
		return
	}
	var err error
	key := c.prefix + "launcher"
	c.words = strings.Fields(c.command)
	if c.split == "shell" {
		c.words, err = splitWords(c.command)
	}
	switch {
	case err != nil:
		set.Bad(key, err.Error())
	case len(c.words) == 0 || c.words[0] == "":
		set.Bad(key, set.Shown(key, c.command)+" is not allowed; allowed: a command, as in: /usr/bin/php run.php {id}")
	}
}

func (c *launcherConfig) validateDir(set *conf.Set) {
	key := c.prefix + "launcher.cwd"
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		set.Bad(key, err.Error())
		return
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		set.Bad(key, fmt.Sprintf("%v; allowed: a folder that exists", err))
	case !info.IsDir():
		set.Bad(key, fmt.Sprintf("%s is not a folder; allowed: a folder that exists", dir))
	}
	c.dir = dir
}

// launcher is the launcher that jobs are started with.
func (c *launcherConfig) launcher() jobexec.Launcher {
	l := jobexec.Launcher{Words: c.words, Dir: c.dir, Env: c.env, Account: c.account}
	switch {
	case c.runs.Pooled():
		l.Mode, l.Keep = c.runs, c.keep
	case c.runs.Requests():
		l.Mode, l.Service = c.runs, c.service
	}
	return l
}

// resolve finds how the command runs jobs. It notes what can't be right.
func (c *launcherConfig) resolve(set *conf.Set) {
	key, modeKey := c.prefix+"launcher", c.prefix+"launcher_mode"
	c.runs = jobexec.Mode(c.mode)
	service, is, err := parseService(c.words)
	switch {
	case err != nil:
		if set.Given(key) { // else the common one is what is wrong
			set.Bad(key, err.Error())
		}
		c.runs = ""
	case is:
		c.runs, c.service = service.Mode, service
		if service.Mode == jobexec.ModeHTTP {
			c.service.Secret = c.secret
		}
		if set.Given(modeKey) {
			set.Bad(modeKey, "the launcher is "+serviceInWords(service.Mode)+", for which there are no modes; allowed: launcher_mode beside a command")
		}
	case c.runs.Pooled() && strings.Contains(strings.Join(c.words, " "), "{id}"):
		c.refuseID(set)
	}
}

// refuseID notes that a command has an id in it whose processes are for many jobs.
func (c *launcherConfig) refuseID(set *conf.Set) {
	key := c.prefix + "launcher"
	if !set.Given(key) {
		key = c.prefix + "launcher_mode"
	}
	set.Bad(key, fmt.Sprintf("{id} can't stand in a launcher with launcher_mode = %s: its processes are started before there is a job, and are told of each by a line "+
		"`run ID …` on descriptor 3; allowed: a command without {id}, whose script reads such lines, as those in examples/launchers do, or launcher_mode = process", c.mode))
}

// splitWords splits as a shell does, but replaces nothing: words end at spaces; single
// quotes keep all between them, double quotes all but the backslashes before ", \ and
// a backslash outside of quotes keeps the character after it.
func splitWords(text string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
		quote  rune
		escape bool
	)
	for _, r := range text {
		switch {
		case escape:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escape = false
		case r == '\\' && quote != '\'':
			escape, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if escape {
		return nil, errors.New(`the \ at its end escapes nothing`)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// scheme is how a URL begins. No program is called so: the shell would not find it either.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// fastcgiPrefix begins the address of a FastCGI server.
const fastcgiPrefix = "fastcgi:"

// parseService takes a launcher's words as a service, if they are one. No error repeats a word of
// it: there may be a password in a URL.
func parseService(words []string) (service jobexec.Service, is bool, err error) {
	if len(words) == 0 {
		return service, false, nil
	}
	first := words[0]
	switch lower := strings.ToLower(first); {
	case first == gearmanLauncher && len(words) == 1:
		return jobexec.Service{Mode: jobexec.ModeGearman}, true, nil
	case strings.HasPrefix(lower, fastcgiPrefix):
		service, err = parseFastCGI(first[len(fastcgiPrefix):], words[1:])
	case strings.HasPrefix(lower, "http://"), strings.HasPrefix(lower, "https://"):
		service, err = parseHTTP(first, words[1:])
	case strings.HasPrefix(lower, "http:"), strings.HasPrefix(lower, "https:"), scheme.MatchString(first):
		err = errors.New("it begins like an address of an unknown kind; allowed: a command, http://HOST/PATH or https://HOST/PATH, and fastcgi:SOCKET SCRIPT")
	default:
		return service, false, nil
	}
	return service, err == nil, err
}

// parseHTTP takes the URL of a service.
func parseHTTP(text string, more []string) (jobexec.Service, error) {
	const allowed = "; allowed: one URL in visible ASCII, without a name, a password (launcher_secret signs requests), {id} in its host or a fragment, " +
		"as in: http://127.0.0.1:8080/run/{id}"
	authority, _, _ := strings.Cut(text[strings.Index(text, "://")+3:], "/")
	parsed, err := url.Parse(strings.ReplaceAll(text, "{id}", "1"))
	switch {
	case len(more) > 0:
		return jobexec.Service{}, errors.New("words follow its URL, which jobd would not use" + allowed)
	case err != nil || parsed.User != nil || parsed.Hostname() == "" || parsed.Fragment != "", strings.HasSuffix(text, "#"), strings.Contains(authority, "{id}"),
		!visible(parsed.Host), !visible(parsed.RequestURI()), parsed.Port() != "" && !isPort(parsed.Port()):
		return jobexec.Service{}, errors.New("no request can be sent to its URL" + allowed)
	}
	return jobexec.Service{Mode: jobexec.ModeHTTP, URL: text}, nil
}

// parseFastCGI takes the address of a FastCGI server, and the script that it is to run.
func parseFastCGI(address string, more []string) (jobexec.Service, error) {
	const allowed = "; allowed: a socket's path of at most 107 bytes or HOST:PORT, and the script's path, as in: fastcgi:/run/php/fpm.sock /srv/app/job.php"
	host, port, err := net.SplitHostPort(address)
	isSocket := strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") && len(address) <= longestSocket
	switch {
	case strings.Contains(address+strings.Join(more, " "), "{id}"):
		return jobexec.Service{}, errors.New("remove {id}: the script gets it as JOBD_ID and as the query string" + allowed)
	case len(more) != 1 || !filepath.IsAbs(more[0]):
		return jobexec.Service{}, errors.New("the script must follow the address, as one word that begins with /" + allowed)
	case !isSocket && (err != nil || !isHost(host) || !isPort(port)):
		return jobexec.Service{}, errors.New("its address is invalid" + allowed)
	}
	return jobexec.Service{Mode: jobexec.ModeFastCGI, Address: address, Script: more[0]}, nil
}

// longestSocket is the longest path that the system takes as a socket's.
const longestSocket = 107

// visible tells whether a text has visible ASCII characters only.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isHost tells whether a text may be a host's name or address.
func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || text != "" && !strings.ContainsAny(text, ":/@, ")
}

func isPort(text string) bool {
	number, err := strconv.Atoi(text)
	return err == nil && number >= 1 && number <= 65535
}

// serviceInWords names what a request goes to.
func serviceInWords(mode jobexec.Mode) string {
	switch mode {
	case jobexec.ModeHTTP:
		return "a URL"
	case jobexec.ModeGearman:
		return "gearman"
	}
	return "a FastCGI server"
}
