package gearman

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// A scenario is lines:
//
//	# what this is about
//	client > SUBMIT_JOB_BG resize "" "some bytes"
//	client < JOB_CREATED {job1}
//	admin > "status\n"
//	admin < "resize\t1\t0\t0"
//	admin < "."
//
// A name is a connection, which its first line opens. After > stands what it sends: a packet, by its name or
// number, with a request's magic or, after RES, a response's; bytes in quotes; part and bytes behind which
// nothing can be asked; close; or until with a line or packet that is sent again and again until this line or packet
// is answered. After < stands what comes back: a packet, a line
// of text in quotes, closed, refused or hangs. Words with other bytes than letters stand in quotes; "x"*70 is a word repeated.
// Job handles are {job1}, {job2}, in the order in which they come; {now+1} is a time, {pid}, {version}, {address}
// and {fd} are the server's. A line "client < ?" waits for something that will come by itself.
type scenario struct {
	name  string
	lines []string
}

// steps are the scenario's lines in groups: what is sent, then what came back.
func (s scenario) steps() (steps [][]string) {
	for _, line := range s.lines {
		if _, isAnswer := answerOf(line); !isAnswer || len(steps) == 0 {
			steps = append(steps, nil)
		}
		last := len(steps) - 1
		steps[last] = append(steps[last], line)
	}
	return steps
}

// answerOf is the connection to which a line's answer came.
func answerOf(line string) (name string, isAnswer bool) {
	name, _, isAnswer = strings.Cut(line, " < ")
	return name, isAnswer && !strings.HasPrefix(line, "#") && !strings.ContainsAny(name, " ")
}

func readScenario(t *testing.T, file string) scenario {
	t.Helper()
	text := string(must.Get(os.ReadFile(file))(t))
	name := strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".txt")
	return scenario{name, strings.Split(strings.TrimRight(text, "\n"), "\n")}
}

// player plays a scenario against a server.
type player struct {
	addr     string
	patience time.Duration // for what is expected
	names    []string      // of connections, in the order in which they were opened
	links    map[string]*link
	handles  []string // of jobs, in the order in which they came
	fences   int
	woken    bool // who is collected from may be woken beside what is expected: libraries pass over that
	wakes    bool // a worker sleeps and asks again where it is answered NO_JOB instead of what is expected
}

// play gives the scenario's lines as the server answers them. What is expected after a step is waited for. Whatever
// else the server has sent by then comes before the answer to an ECHO_REQ, which ends each step on each connection.
func (s scenario) play(t *testing.T, addr string, patience time.Duration, wakes bool) (played []string) {
	t.Helper()
	p := &player{addr: addr, patience: patience, wakes: wakes, links: map[string]*link{}}
	defer func() {
		for _, l := range p.links {
			l.conn.Close()
		}
	}()
	for _, step := range s.steps() {
		played = append(played, step[0])
		if step[0] == "" || step[0][0] == '#' {
			continue
		}
		expected := map[string]int{}
		for _, line := range step[1:] {
			switch name, _ := answerOf(line); line {
			case name + hangs:
				expected[name] = hanging
			case name + closed: // gearmand closes some when they say more
			default:
				expected[name]++
			}
		}
		answered, part, err := p.send(step[0])
		if err != nil {
			t.Fatalf("%s\n%v", strings.Join(played, "\n"), err)
		}
		played = append(played, answered...)
		if part {
			continue
		}
		// Who has sent comes first: by the time of its answer the others have been sent to, too.
		sender, _, _ := strings.Cut(step[0], " > ")
		names := slices.Clone(p.names)
		slices.SortStableFunc(names, func(a, b string) int { return first(b == sender) - first(a == sender) })
		for _, name := range names {
			if name == sender {
				expected[name] -= len(answered)
			}
			// A worker that sleeps, and can do more, is woken when the jobs of that are claimed: perhaps just now.
			p.woken = p.wakes && name == sender && (strings.HasPrefix(step[0], name+" > CAN_DO ") || step[0] == name+" > GRAB_JOB")
			came, err := p.collect(name, expected[name])
			p.woken = false
			if err == nil && p.wakes && slices.Equal(came, []string{name + " < NO_JOB"}) && !slices.Contains(step, came[0]) {
				came, err = p.sleep(name, step[0])
			}
			if err != nil {
				t.Fatalf("%s\n%s: %v; before: %q", strings.Join(played, "\n"), name, err, came)
			}
			played = append(played, came...)
		}
	}
	return played
}

func first(is bool) int {
	if is {
		return 1
	}
	return 0
}

// words are those of a line after its < or >.
var word = regexp.MustCompile(`("(?:[^"\\]|\\.)*")(?:\*(\d+))?|[^ "]+`)

func (p *player) words(text string) (words []string, err error) {
	for _, found := range word.FindAllStringSubmatch(text, -1) {
		w := found[0]
		if found[1] != "" {
			if w, err = strconv.Unquote(found[1]); err != nil {
				return nil, fmt.Errorf("%s: %w", found[1], err)
			}
			if found[2] != "" {
				n, _ := strconv.Atoi(found[2])
				w = strings.Repeat(w, n)
			}
		}
		words = append(words, p.filled(w))
	}
	return words, nil
}

var placeholder = regexp.MustCompile(`\{(job|now\+)(\d+)([^}]*)\}`)

// filled is a word with values in the places of the names.
func (p *player) filled(w string) string {
	return placeholder.ReplaceAllStringFunc(w, func(name string) string {
		parts := placeholder.FindStringSubmatch(name)
		n, _ := strconv.Atoi(parts[2])
		switch {
		case parts[1] == "now+":
			return strconv.FormatInt(time.Now().Unix()+int64(n), 10)
		case n > len(p.handles):
			return name
		}
		return p.handles[n-1]
	})
}

// send does a step, and gives what it has heard already. After a part of a packet or line nothing can be asked.
func (p *player) send(line string) (answered []string, part bool, err error) {
	name, text, isStep := strings.Cut(line, " > ")
	if !isStep {
		return nil, false, errors.New("this is no step")
	}
	words, err := p.words(text)
	if err != nil {
		return nil, false, err
	}
	for i, w := range words {
		if l := p.links[name]; l != nil && l.assigned[w] != "" {
			words[i] = l.assigned[w]
		}
	}
	if p.links[name] == nil {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			return []string{name + " < refused"}, false, nil
		}
		p.links[name] = &link{conn: conn, assigned: map[string]string{}}
		p.names = append(p.names, name)
	}
	l, magic := p.links[name], request
	switch {
	case text == "close":
		p.forget(name)
		return nil, false, nil
	case words[0] == "until":
		told, _ := (&player{}).words(text) // handles and times have no values yet
		answered, err = p.until(name, told[1], told[2])
		return answered, false, err
	case words[0] == "part", text[0] == '"':
		_, err = l.conn.Write([]byte(words[len(words)-1]))
		return nil, words[0] == "part", err
	case words[0] == "RES":
		magic, words = response, words[1:]
	}
	k, err := kindOf(words[0])
	if err != nil {
		return nil, false, err
	}
	_, err = l.conn.Write(packet{k, words[1:]}.encode(magic))
	return nil, false, err
}

func (p *player) forget(name string) {
	p.links[name].conn.Close()
	delete(p.links, name)
	p.names = slices.DeleteFunc(p.names, func(n string) bool { return n == name })
}

// until asks for something until a line of the answer is this one.
func (p *player) until(name, question, wanted string) (answered []string, err error) {
	wanted = name + " < " + wanted
	if strings.HasSuffix(question, "\n") {
		question, wanted = strconv.Quote(question), name+" < "+strconv.Quote(strings.TrimPrefix(wanted, name+" < "))
	}
	for deadline := time.Now().Add(p.patience); ; <-time.After(10 * time.Millisecond) {
		if _, _, err := p.send(name + " > " + question); err != nil {
			return nil, err
		}
		came, err := p.collect(name, 1)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(came, wanted):
			return came, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%s never came, but %q", wanted, came)
		}
	}
}

// sleep has a worker sleep until it is woken, and ask again.
func (p *player) sleep(name, asked string) (came []string, err error) {
	for range 10 {
		if err := p.links[name].send(4); err != nil {
			return nil, err
		}
		if came, err = p.collect(name, 1); err != nil || !slices.Equal(came, []string{name + " < NOOP"}) {
			return came, err
		}
		if _, _, err = p.send(asked); err != nil {
			return nil, err
		}
		if came, err = p.collect(name, 1); err != nil || !slices.Equal(came, []string{name + " < NO_JOB"}) {
			return came, err
		}
	}
	return came, err
}

// hangs is the answer of a connection that is never answered again, as some of gearmand's aren't.
const closed, hangs, hanging = " < closed", " < hangs", -1000

// collect gives what comes on a connection: as much as is expected, and then all before the answer to a fence.
func (p *player) collect(name string, expected int) (came []string, err error) {
	l := p.links[name]
	conn := l.conn.(net.Conn)
	p.fences++
	fence := fmt.Sprintf("fence %d", p.fences)
	fenced, patience := false, p.patience
	if expected == hanging {
		patience = time.Second
	}
	for {
		if len(came) >= expected && !fenced {
			fenced = true
			_ = l.send(16, fence) // a connection that is closed says so when it is read
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		got, err := l.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !fenced:
			expected = 0 // it does not come: the text that comes instead shows that
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && (expected == hanging || os.Getenv(record) != ""):
			p.forget(name)
			return append(came, name+hangs), nil
		case errors.Is(err, errClosed) && !errors.Is(err, os.ErrDeadlineExceeded):
			if len(l.unread) > 0 {
				came = append(came, name+" < "+strconv.Quote(string(l.unread)))
			}
			p.forget(name)
			return append(came, name+closed), nil
		case err != nil:
			return came, fmt.Errorf("it does not answer %s: %w", fence, err)
		case got.kind == 17 && got.arguments[0] == fence:
			return came, nil
		case got.kind == 6 && p.woken:
			continue
		case got.kind == 11 || got.kind == 31: // jobd's next attempts have handles of their own
			l.assigned[attempt.ReplaceAllString(got.arguments[0], "")] = got.arguments[0]
			got.arguments[0] = attempt.ReplaceAllString(got.arguments[0], "")
		}
		came = append(came, name+" < "+p.told(got))
	}
}

var (
	attempt = regexp.MustCompile(`\.\d+$`)
	handle  = regexp.MustCompile(`H:[^\t \x00\r]+`)
	plain   = regexp.MustCompile(`^[A-Za-z0-9_.:{}+-]+$`)
	ofLines = []struct {
		text *regexp.Regexp
		by   string
	}{
		{regexp.MustCompile(`^\d+ (127\.0\.0\.1|::ffff:127\.0\.0\.1|::1|localhost) `), "{fd} {address} "},
		{regexp.MustCompile(`^OK \d+$`), "OK {pid}"},
		{regexp.MustCompile(`^OK \S*\d+\.\d+\S*( .*)?$`), "OK {version}"},
	}
)

// told is a packet or line as it stands in a scenario.
func (p *player) told(got packet) string {
	told := []string{}
	if got.kind != 0 {
		told = append(told, got.kind.String())
	}
	for _, argument := range got.arguments {
		argument = handle.ReplaceAllStringFunc(argument, func(h string) string {
			n := slices.Index(p.handles, h)
			if n < 0 {
				n = len(p.handles)
				p.handles = append(p.handles, h)
			}
			return fmt.Sprintf("{job%d}", n+1)
		})
		for _, masked := range ofLines {
			if got.kind == 0 {
				argument = masked.text.ReplaceAllString(argument, masked.by)
			}
		}
		switch {
		case len(argument) > 60 && strings.Count(argument, argument[:1]) == len(argument):
			told = append(told, fmt.Sprintf("%q*%d", argument[:1], len(argument)))
		case got.kind != 0 && plain.MatchString(argument):
			told = append(told, argument)
		default:
			told = append(told, strconv.Quote(argument))
		}
	}
	return strings.Join(told, " ")
}
