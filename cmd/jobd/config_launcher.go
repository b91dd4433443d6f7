package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/systemd"
	jobexec "jobd/exec"
)

// environPrefix begins the names of jobd's own variables. Jobs don't get them: there may
// be passwords among them.
const environPrefix = "JOBD_"

// launcherConfig says how a job is started.
type launcherConfig struct {
	prefix  string // of its keys: that of its target's section; "": it is the common one
	command string // or what a request is sent to
	split   string // "spaces" or "shell"
	extra   []string

	executor executorConfig

	words []string // the command; {id} in them is still to be replaced
	dir   string   // absolute
	env   []string // the whole environment, as of os.Environ
}

func (c *launcherConfig) register(set *conf.Set) {
	set.Add("launcher", "", "the command that runs a job, or the address of a service: http://HOST/PATH, https://HOST/PATH, fastcgi:SOCKET SCRIPT; {id} in it is the job's id", conf.NonEmpty(&c.command)).OwnQuotes()
	set.Add("launcher_split", "spaces", "how it is split into words: at spaces, or as a shell would: shell", conf.OneOf(&c.split, "spaces", "shell"))
	set.Add("launcher.cwd", "", "where it runs; where jobd was started if not given", conf.NonEmpty(&c.dir))
	set.AddFamily("launcher.env", "a variable added to its environment", c.addVariable)
	c.executor.register(set, map[string]string{keyMode: string(jobexec.ModeProcess), keyBoot: "30"})
}

// addVariable takes one variable of its environment.
func (c *launcherConfig) addVariable(name, text string) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("any text without NUL bytes")
	}
	c.extra = append(c.extra, name+"="+text)
	return nil
}

func (c *launcherConfig) validate(set *conf.Set, environ []string) {
	set.Require("", "launcher")
	c.validateWords(set)
	c.resolve(set)
	c.warnOfID(set)
	c.validateDir(set)
	c.env = slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		return strings.HasPrefix(variable, environPrefix) || systemd.IsOwn(variable)
	})
	c.env = withVariables(c.env, c.extra)
}

// withVariables is an environment in which more variables take the place of those of their names.
func withVariables(environ, more []string) []string {
	rest := slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.ContainsFunc(more, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	return append(rest, more...)
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
		set.Bad(key, set.Shown(key, c.command)+" is not allowed; allowed is a command, as in: /usr/bin/php run.php {id}")
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
		set.Bad(key, fmt.Sprintf("%v; allowed is a folder that exists", err))
	case !info.IsDir():
		set.Bad(key, fmt.Sprintf("%s is no folder; allowed is a folder that exists", dir))
	}
	c.dir = dir
}

// launcher is the launcher that jobs are started with.
func (c *launcherConfig) launcher() jobexec.Launcher {
	l := jobexec.Launcher{Words: c.words, Dir: c.dir, Env: c.env}
	switch mode := c.executor.runs; {
	case mode.Pooled():
		l.Mode, l.Keep = mode, c.executor.keep
	case mode.Requests():
		l.Mode, l.Service = mode, c.executor.service
	}
	return l
}

// check looks whether jobs can be started with it. That is no part of reading the configuration:
// what is missing may be there by the time that the worker starts, and the other way round.
func (c *launcherConfig) check() error {
	if err := c.launcher().Check(); err != nil {
		return fmt.Errorf("launcher: it can't be executed: %w", err)
	}
	return nil
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
		return nil, errors.New(`a \ at the end stands before nothing`)
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
	case strings.HasPrefix(lower, fastcgiPrefix):
		service, err = parseFastCGI(first[len(fastcgiPrefix):], words[1:])
	case strings.HasPrefix(lower, "http://"), strings.HasPrefix(lower, "https://"):
		service, err = parseHTTP(first, words[1:])
	case strings.HasPrefix(lower, "http:"), strings.HasPrefix(lower, "https:"), scheme.MatchString(first):
		err = errors.New("it begins as an address that jobd knows no way to; allowed are a command, http://HOST/PATH or https://HOST/PATH, and fastcgi:SOCKET SCRIPT")
	default:
		return service, false, nil
	}
	return service, err == nil, err
}

// parseHTTP takes the URL of a service.
func parseHTTP(text string, more []string) (jobexec.Service, error) {
	const allowed = "; allowed is a URL, as in: http://127.0.0.1:8080/run/{id}"
	if len(more) > 0 {
		return jobexec.Service{}, errors.New("there are words behind its URL, which nothing would be done with" + allowed)
	}
	authority, _, _ := strings.Cut(text[strings.Index(text, "://")+3:], "/")
	if strings.Contains(authority, "{id}") {
		return jobexec.Service{}, errors.New("{id} stands in the host of its URL" + allowed)
	}
	parsed, err := url.Parse(strings.ReplaceAll(text, "{id}", "1"))
	switch {
	case err != nil:
		return jobexec.Service{}, errors.New("its URL can't be understood" + allowed)
	case parsed.User != nil:
		return jobexec.Service{}, errors.New("there is a name or a password in its URL; allowed is a URL without one: launcher_secret signs the requests")
	case parsed.Hostname() == "":
		return jobexec.Service{}, errors.New("its URL has no host" + allowed)
	case parsed.Fragment != "" || strings.HasSuffix(text, "#"):
		return jobexec.Service{}, errors.New("its URL has a part behind #, which no server gets to see" + allowed)
	case !visible(parsed.Host) || !visible(parsed.RequestURI()):
		return jobexec.Service{}, errors.New("its URL has characters that no request may have; allowed is a host in punycode, and percent-encoding of what is no visible ASCII")
	case parsed.Port() != "" && !isPort(parsed.Port()):
		return jobexec.Service{}, errors.New("the port of its URL is none; allowed is a number from 1 to 65535")
	}
	return jobexec.Service{Mode: jobexec.ModeHTTP, URL: text}, nil
}

// parseFastCGI takes the address of a FastCGI server, and the script that it is to run.
func parseFastCGI(address string, more []string) (jobexec.Service, error) {
	const allowed = "; allowed is a socket's path or HOST:PORT, and the script's path, as in: fastcgi:/run/php/fpm.sock /srv/app/job.php"
	if strings.Contains(address+strings.Join(more, " "), "{id}") {
		return jobexec.Service{}, errors.New("{id} stands in it, and the script gets the id as JOBD_ID and as the query string" + allowed)
	}
	if len(more) != 1 || !filepath.IsAbs(more[0]) {
		return jobexec.Service{}, errors.New("behind the address there must be the script, one word that begins with /" + allowed)
	}
	host, port, err := net.SplitHostPort(address)
	switch {
	case strings.HasPrefix(address, "//"):
		return jobexec.Service{}, errors.New("two slashes stand behind fastcgi:" + allowed)
	case strings.HasPrefix(address, "/"):
		if len(address) > longestSocket {
			return jobexec.Service{}, fmt.Errorf("the path of its socket has %d bytes; allowed are at most %d", len(address), longestSocket)
		}
	case err != nil, !isHost(host), !isPort(port):
		return jobexec.Service{}, errors.New("its address is none" + allowed)
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
	if mode == jobexec.ModeHTTP {
		return "a URL"
	}
	return "a FastCGI server"
}
