package gearman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"jobd/net/principal"
)

// The text commands, as gearmand 1.1.20 answers them. A line ends with LF or CRLF: gearmand cuts the last byte of a
// line without CR off.

// errHTTP ends a connection: a browser, which any page can make connect here, must not be obeyed.
var errHTTP = errors.New("it speaks HTTP, which is not spoken here")

// methods begin the first line of a request over HTTP.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PRI"}

// mostListed is how many jobs a command lists at most.
const mostListed = 100_000

// The answers that many commands have.
const (
	okay       = "OK\r\n"
	incomplete = "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+%s\r\n"
	unknown    = "ERR UNKNOWN_COMMAND Unknown+server+command%s\r\n"
	endOfList  = ".\n"
)

// command answers one line. Its error ends the connection.
func (p *Peer) command(ctx context.Context, line string) error {
	words := strings.Fields(printable(strings.TrimRight(line, "\r\n")))
	if len(words) == 0 {
		p.say(fmt.Sprintf(unknown, ""))
		return nil
	}
	if slices.Contains(methods, words[0]) || strings.Contains(line, " HTTP/") {
		return errHTTP
	}
	answer, err := p.answer(ctx, strings.ToLower(words[0]), words[1:])
	if err != nil {
		answer = fmt.Sprintf("ERR %s\r\n", printable(err.Error()))
	}
	p.say(answer)
	return nil
}

// rights are what commands need; others say nothing of jobs.
var rights = map[string]principal.Scope{
	"status": principal.Status, "workers": principal.Status, "prioritystatus": principal.Status, "show": principal.Status,
	"cancel": principal.Run, "create": principal.Admin, "drop": principal.Admin, "maxqueue": principal.Admin,
}

// answer is what is said to a command.
func (p *Peer) answer(ctx context.Context, name string, args []string) (string, error) {
	s := p.server
	if need, known := rights[name]; known {
		about, at := "", 1 // behind the word function
		if name == "maxqueue" {
			at = 0
		}
		if need == principal.Admin && len(args) > at {
			about = args[at]
		}
		if err := p.may(need, name, about); err != nil {
			return "", err
		}
	}
	switch name {
	case "status", "prioritystatus":
		return p.counts(ctx, name == "status")
	case "workers":
		return s.listWorkers(), nil
	case "show":
		return p.show(ctx, strings.Join(args, " "))
	case "cancel":
		return p.cancel(ctx, args)
	case "create":
		if len(args) != 2 || args[0] != "function" {
			return fmt.Sprintf(incomplete, name), nil
		}
		if why := unfit(args[1]); why != "" {
			return "", errors.New(why)
		}
		return okay, s.Functions.Add(args[1], p.By())
	case "drop":
		if len(args) != 2 || args[0] != "function" {
			return fmt.Sprintf(incomplete, name), nil
		}
		return okay, s.drop(ctx, args[1], p.By())
	case "maxqueue":
		return p.maxQueue(args)
	case "version":
		return "OK " + s.Version + "\n", nil
	case "getpid":
		return fmt.Sprintf("OK %d\n", os.Getpid()), nil
	case "verbose":
		return "OK ERROR\n", nil
	}
	return fmt.Sprintf(unknown, name), nil
}

// drop drops a function that nobody can do.
func (s *Server) drop(ctx context.Context, name, by string) error {
	if s.WorkersOf(name) > 0 {
		return errors.New("there are still connected workers or executing clients")
	}
	return s.Functions.Drop(ctx, name, by)
}

// cancel cancels a job.
func (p *Peer) cancel(ctx context.Context, args []string) (string, error) {
	switch {
	case len(args) < 2:
		return fmt.Sprintf(unknown, "cancel"), nil
	case len(args) > 2 || args[0] != "job":
		return "ERR UNKNOWN_ERROR\r\n", nil
	}
	found, err := p.server.Queue.Cancel(ctx, args[1], p)
	if err == nil && !found {
		return "ERR UNKNOWN_JOB\r\n", nil
	}
	return okay, err
}

// maxQueue bounds the queue of a function. gearmand takes a number for each priority, too: they are added up.
func (p *Peer) maxQueue(args []string) (string, error) {
	if len(args) == 0 {
		return fmt.Sprintf(incomplete, "maxqueue"), nil
	}
	most := 0
	for _, text := range args[1:] {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			most += n
		}
	}
	p.server.Functions.Limit(args[0], most)
	return okay, nil
}

// counts answers status and prioritystatus. Functions that only workers have named are there, too.
func (p *Peer) counts(ctx context.Context, total bool) (string, error) {
	counts, err := p.server.Queue.Counts(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range counts {
		if !p.Reaches(c.Function) {
			continue
		}
		queued, workers := c.Queued, p.server.WorkersOf(c.Function)
		if total {
			sum := queued[0] + queued[1] + queued[2] + c.Running
			fmt.Fprintf(&b, "%s\t%d\t%d\t%d\n", c.Function, sum, c.Running, workers)
		} else {
			fmt.Fprintf(&b, "%s\t%d\t%d\t%d\t%d\n", c.Function, queued[0], queued[1], queued[2], workers)
		}
	}
	return b.String() + endOfList, nil
}

// listWorkers answers workers: all connections, as gearmand lists them.
func (s *Server) listWorkers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	peers := make([]*Peer, 0, len(s.peers))
	for p := range s.peers {
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b *Peer) int { return int(a.number - b.number) })
	var b strings.Builder
	for _, p := range peers {
		id := p.id
		if id == "" {
			id = "-"
		}
		fmt.Fprintf(&b, "%d %s %s :", p.number, host(p), id)
		for _, name := range p.can {
			fmt.Fprintf(&b, " %s", name)
		}
		b.WriteString("\n")
	}
	return b.String() + endOfList
}

// host is where a peer is.
func host(p *Peer) string {
	address := p.conn.RemoteAddr().String()
	if at := strings.LastIndex(address, ":"); at > 0 {
		return strings.Trim(address[:at], "[]")
	}
	return "-"
}

// show answers show jobs and show unique jobs.
func (p *Peer) show(ctx context.Context, what string) (string, error) {
	if what == "" {
		return fmt.Sprintf(unknown, "show"), nil
	}
	if what != "jobs" && what != "unique jobs" {
		return "ERR UNKNOWN_SHOW_ARGUMENTS\r\n", nil
	}
	jobs, err := p.server.Queue.Jobs(ctx, mostListed)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, j := range jobs {
		switch {
		case !p.Reaches(j.Function):
		case what == "jobs":
			fmt.Fprintf(&b, "%s\t0\t0\t%s\n", j.Handle, digit(j.Background))
		default:
			fmt.Fprintf(&b, "%s\n", printable(j.Unique))
		}
	}
	return b.String() + endOfList, nil
}
