package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	jobexec "jobd/exec"
)

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
