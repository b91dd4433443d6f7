package gearman

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"jobd/net/principal"
)

// Kind is what a packet is, by its number in Gearman's PROTOCOL document.
type Kind uint32

// The kinds of packets.
const (
	CanDo           Kind = 1
	CantDo          Kind = 2
	ResetAbilities  Kind = 3
	PreSleep        Kind = 4
	Noop            Kind = 6
	SubmitJob       Kind = 7
	JobCreated      Kind = 8
	GrabJob         Kind = 9
	NoJob           Kind = 10
	JobAssign       Kind = 11
	WorkStatus      Kind = 12
	WorkComplete    Kind = 13
	WorkFail        Kind = 14
	GetStatus       Kind = 15
	EchoReq         Kind = 16
	EchoRes         Kind = 17
	SubmitJobBg     Kind = 18
	Error           Kind = 19
	StatusRes       Kind = 20
	SubmitJobHigh   Kind = 21
	SetClientID     Kind = 22
	CanDoTimeout    Kind = 23
	AllYours        Kind = 24
	WorkException   Kind = 25
	OptionReq       Kind = 26
	OptionRes       Kind = 27
	WorkData        Kind = 28
	WorkWarning     Kind = 29
	GrabJobUniq     Kind = 30
	JobAssignUniq   Kind = 31
	SubmitJobHighBg Kind = 32
	SubmitJobLow    Kind = 33
	SubmitJobLowBg  Kind = 34
	SubmitJobSched  Kind = 35
	SubmitJobEpoch  Kind = 36
	SubmitReduce    Kind = 37
	SubmitReduceBg  Kind = 38
	GrabJobAll      Kind = 39
	GetStatusUnique Kind = 41
	StatusResUnique Kind = 42
)

const (
	lastKind   = StatusResUnique
	headLength = 12
)

// request is what a kind of packet that a peer sends is like.
type request struct {
	args int             // the last one is the rest, with whatever NUL bytes are in it
	name string          // as somebody is refused it
	need principal.Scope // 0: none, as for what a worker says of the jobs that it was sent
}

var (
	submits = request{3, "SUBMIT_JOB", principal.Submit}
	works   = request{1, "CAN_DO", principal.Worker}
	looks   = request{1, "GET_STATUS", principal.Status}
)

// requests are the kinds that a peer may send.
var requests = map[Kind]request{
	SubmitJob: submits, SubmitJobBg: submits, SubmitJobHigh: submits, SubmitJobHighBg: submits, SubmitJobLow: submits,
	SubmitJobLowBg: submits, SubmitJobEpoch: {4, submits.name, submits.need},
	GetStatus: looks, GetStatusUnique: looks, EchoReq: {args: 1}, OptionReq: {args: 1},
	CanDo: works, CanDoTimeout: {2, works.name, works.need}, CantDo: {args: 1}, ResetAbilities: {}, SetClientID: {args: 1},
	PreSleep: {}, GrabJob: {}, GrabJobUniq: {}, GrabJobAll: {},
	WorkStatus: {args: 3}, WorkData: {args: 2}, WorkWarning: {args: 2}, WorkComplete: {args: 2}, WorkFail: {args: 1}, WorkException: {args: 2},
}

// head is the beginning of a packet.
type head struct {
	kind Kind
	size int
	asks bool // its magic is that of a request
}

// Errors that end a connection: what follows can't be understood.
var (
	errMagic = errors.New("a packet begins with neither \\0REQ nor \\0RES")
	errKind  = errors.New("a packet is of no known type")
	errLong  = errors.New("a packet is longer than gearman_max_packet")
	errShort = errors.New("a packet has fewer arguments than its type needs")
)

// readHead reads the beginning of a packet.
func readHead(r io.Reader, most int) (h head, err error) {
	var raw [headLength]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return h, err
	}
	switch string(raw[:4]) {
	case "\x00REQ":
		h.asks = true
	case "\x00RES":
	default:
		return h, errMagic
	}
	h.kind = Kind(binary.BigEndian.Uint32(raw[4:]))
	if h.kind == 0 || h.kind > lastKind {
		return h, fmt.Errorf("%w: %d", errKind, h.kind)
	}
	size := binary.BigEndian.Uint32(raw[8:])
	if int64(size) > int64(most) {
		return h, errLong
	}
	h.size = int(size)
	return h, nil
}

// readBody reads the rest of a packet. A long one gets memory as it comes, not when it is announced: it calls step
// behind its first shortBytes, and again behind each stepBytes.
func readBody(r io.Reader, size int, step func() error) ([]byte, error) {
	if size <= shortBytes {
		body := make([]byte, size)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	body := make([]byte, 0, shortBytes)
	for len(body) < size {
		if len(body) > 0 {
			if err := step(); err != nil {
				return nil, err
			}
		}
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(size, 4*cap(body)))
			copy(grown, body)
			body = grown
		}
		n, err := io.ReadFull(r, body[len(body):min(cap(body), len(body)+stepBytes)])
		if body = body[:len(body)+n]; err != nil {
			return nil, err
		}
	}
	return body, nil
}

// split takes the arguments of a packet apart. Without any, its body does not count.
func split(body []byte, n int) (args [][]byte, err error) {
	if n == 0 {
		return nil, nil
	}
	args = make([][]byte, 0, n)
	for len(args) < n-1 {
		one, rest, found := bytes.Cut(body, []byte{0})
		if !found {
			return nil, errShort
		}
		args, body = append(args, one), rest
	}
	return append(args, body), nil
}

// begin appends a response but for the bytes of its last argument, of which there are tail; below 0: the last
// of args is the last argument.
func begin(to []byte, kind Kind, args []string, tail int) []byte {
	to = append(to, "\x00RES"...)
	to = binary.BigEndian.AppendUint32(to, uint32(kind))
	at := len(to)
	to = append(to, 0, 0, 0, 0)
	for i, a := range args {
		to = append(to, a...)
		if tail >= 0 || i < len(args)-1 {
			to = append(to, 0)
		}
	}
	binary.BigEndian.PutUint32(to[at:], uint32(len(to)-at-4+max(tail, 0)))
	return to
}
