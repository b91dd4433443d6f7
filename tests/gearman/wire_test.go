package gearman

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// kind is a packet's type.
type kind uint32

// kinds are the packets of the protocol, each with how many arguments it has; the last one may hold NULs.
var kinds = map[kind]struct {
	name      string
	arguments int
}{
	1: {"CAN_DO", 1}, 2: {"CANT_DO", 1}, 3: {"RESET_ABILITIES", 0}, 4: {"PRE_SLEEP", 0}, 6: {"NOOP", 0},
	7: {"SUBMIT_JOB", 3}, 8: {"JOB_CREATED", 1}, 9: {"GRAB_JOB", 0}, 10: {"NO_JOB", 0}, 11: {"JOB_ASSIGN", 3},
	12: {"WORK_STATUS", 3}, 13: {"WORK_COMPLETE", 2}, 14: {"WORK_FAIL", 1}, 15: {"GET_STATUS", 1},
	16: {"ECHO_REQ", 1}, 17: {"ECHO_RES", 1}, 18: {"SUBMIT_JOB_BG", 3}, 19: {"ERROR", 2}, 20: {"STATUS_RES", 5},
	21: {"SUBMIT_JOB_HIGH", 3}, 22: {"SET_CLIENT_ID", 1}, 23: {"CAN_DO_TIMEOUT", 2}, 24: {"ALL_YOURS", 0},
	25: {"WORK_EXCEPTION", 2}, 26: {"OPTION_REQ", 1}, 27: {"OPTION_RES", 1}, 28: {"WORK_DATA", 2},
	29: {"WORK_WARNING", 2}, 30: {"GRAB_JOB_UNIQ", 0}, 31: {"JOB_ASSIGN_UNIQ", 4}, 32: {"SUBMIT_JOB_HIGH_BG", 3},
	33: {"SUBMIT_JOB_LOW", 3}, 34: {"SUBMIT_JOB_LOW_BG", 3}, 35: {"SUBMIT_JOB_SCHED", 8}, 36: {"SUBMIT_JOB_EPOCH", 4},
	37: {"SUBMIT_REDUCE_JOB", 4}, 38: {"SUBMIT_REDUCE_JOB_BACKGROUND", 4}, 39: {"GRAB_JOB_ALL", 0},
	40: {"JOB_ASSIGN_ALL", 5}, 41: {"GET_STATUS_UNIQUE", 1}, 42: {"STATUS_RES_UNIQUE", 6},
}

// kindOf is the packet of a name, or of a number where no packet has that.
func kindOf(name string) (kind, error) {
	for k, known := range kinds {
		if known.name == name {
			return k, nil
		}
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is no packet", name)
	}
	return kind(n), nil
}

func (k kind) String() string {
	if known, found := kinds[k]; found {
		return known.name
	}
	return strconv.FormatUint(uint64(k), 10)
}

// packet is one packet, or a line of the text protocol where the kind is 0.
type packet struct {
	kind      kind
	arguments []string
}

const request, response = "\x00REQ", "\x00RES"

// encode is the packet with a magic.
func (p packet) encode(magic string) []byte {
	body := strings.Join(p.arguments, "\x00")
	encoded := binary.BigEndian.AppendUint32([]byte(magic), uint32(p.kind))
	encoded = binary.BigEndian.AppendUint32(encoded, uint32(len(body)))
	return append(encoded, body...)
}

// decode takes the first packet or line off what a server sent; it has none where that is not whole yet.
func decode(sent []byte) (p packet, rest []byte, whole bool, err error) {
	if len(sent) > 0 && sent[0] != 0 {
		line, rest, whole := bytes.Cut(sent, []byte("\n"))
		return packet{arguments: []string{string(line)}}, rest, whole, nil
	}
	if len(sent) < 12 {
		return packet{}, sent, false, nil
	}
	if string(sent[:4]) != response {
		return packet{}, nil, false, fmt.Errorf("the server sent %q", sent[:min(len(sent), 100)])
	}
	p.kind = kind(binary.BigEndian.Uint32(sent[4:]))
	size := int(binary.BigEndian.Uint32(sent[8:]))
	if len(sent)-12 < size {
		return packet{}, sent, false, nil
	}
	body := string(sent[12 : 12+size])
	if n := kinds[p.kind].arguments; n > 0 {
		p.arguments = strings.SplitN(body, "\x00", n)
	} else if body != "" {
		p.arguments = []string{body}
	}
	return p, sent[12+size:], true, nil
}

// link is a connection that sends requests and reads what comes.
type link struct {
	conn     io.ReadWriteCloser
	unread   []byte
	assigned map[string]string // handles under which a worker has jobs, where they are not those of the clients
}

var errClosed = errors.New("the server closed the connection")

func (l *link) send(k kind, arguments ...string) error {
	_, err := l.conn.Write(packet{k, arguments}.encode(request))
	return err
}

// receive gives the next packet.
func (l *link) receive() (packet, error) {
	buffer := make([]byte, 64<<10)
	for {
		p, rest, whole, err := decode(l.unread)
		if err != nil || whole {
			l.unread = rest
			return p, err
		}
		n, err := l.conn.Read(buffer)
		l.unread = append(l.unread, buffer[:n]...)
		if n == 0 && err != nil {
			return packet{}, errors.Join(errClosed, err)
		}
	}
}

// wanted gives the next packet, which is of one of these kinds.
func (l *link) wanted(any ...kind) (packet, error) {
	p, err := l.receive()
	if err == nil && !slices.Contains(any, p.kind) {
		err = fmt.Errorf("%v %.300q came, and not %v", p.kind, p.arguments, any)
	}
	return p, err
}

// ended gives the packet that ends a launcher's job, which is of this kind. What a job wrote is told four times a
// second while it runs, so on a busy host WORK_DATA and WORK_WARNING may come first.
func (l *link) ended(k kind) (packet, error) {
	for {
		p, err := l.wanted(k, 28, 29)
		if err != nil || p.kind == k {
			return p, err
		}
	}
}
