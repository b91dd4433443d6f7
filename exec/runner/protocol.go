package runner

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"

	"jobd/journal"
)

// The worker and its runner are two ends of a stream socket, which carry messages in gob's encoding.
// The worker begins with hello, the runner answers with its own, in which it lists the jobs it still has
// from workers before.
//
//	worker                                runner
//	hello {version}                ──►
//	                               ◄──    hello {version, instance, jobs}
//	environment {env}              ──►    for the starts that follow
//	start {id, spec}               ──►
//	                               ◄──    started {id, process} or refused {id, text}
//	signal {id, signo}             ──►
//	                               ◄──    signalled {id, text}, in the order of signals
//	                               ◄──    ended {id, done}, with the output where it is small
//	fetch {id}                     ──►
//	                               ◄──    output {id, done}, with the output
//	forget {id}                    ──►    the outcome is journalled
//
// A job is known from the moment its start was read to the moment its forget
// was, whoever is connected.

// protocolVersion changes when an old worker or runner would misunderstand a new one.
const protocolVersion = 1

// kind says what a message is.
type kind uint8

const (
	kindHello kind = iota + 1
	kindEnvironment
	kindStart
	kindStarted
	kindRefused
	kindSignal
	kindSignalled
	kindEnded
	kindFetch
	kindOutput
	kindForget
)

// id tells one start of one job from all others that are under way.
type id struct {
	Job     int64
	Attempt int
}

// message is anything that passes; each kind has its own fields.
type message struct {
	Kind kind
	ID   id

	Version  int       // hello
	Instance string    // hello of the runner
	Jobs     []process // hello of the runner

	Argv      []string // start
	Dir       string   // start
	MaxOutput int      // start
	Env       []string // environment

	Started journal.Started // started
	Text    string          // refused and signalled: why not; "" where it was
	Signo   int             // signal
	Done    *outcomeMessage // ended and output
	outputs [2][]byte       // of Done: stdout and stderr, which follow the message
}

// inlineOutput is how many bytes of output may come with the news that a job ended. More is
// fetched when the worker has room for it, so that many jobs which end at once
// don't fill its memory.
const inlineOutput = 64 << 10

// ended tells how a job ended.
func ended(id id, done journal.Done) message {
	m := output(id, done)
	m.Kind = kindEnded
	if len(done.Stdout.Kept)+len(done.Stderr.Kept) > inlineOutput {
		m.Done.Later, m.outputs = true, [2][]byte{}
	}
	return m
}

// output tells how a job ended, with all that was kept of its output.
func output(id id, done journal.Done) message {
	return message{
		Kind: kindOutput, ID: id, Done: outcomeOf(done),
		outputs: [2][]byte{done.Stdout.Kept, done.Stderr.Kept},
	}
}

// process is a job that a runner has.
type process struct {
	ID      id
	Started journal.Started
}

// outcomeMessage is a journal.Done as it passes. The kept output follows the
// message as it is, stdout then stderr, so that no copy of it is made on the way. Gob leaves
// out pointers to zero, so the exit code 0 has to be told apart from none.
type outcomeMessage struct {
	Result, Signal string
	Reason, Note   string
	HasCode        bool
	Code           int
	Stdout, Stderr outputMessage
	Later          bool // the output does not follow; it is to be fetched
}

// outputMessage is a journal.Output without its bytes.
type outputMessage struct {
	Kept int // bytes that follow
	Size int64
}

func outcomeOf(d journal.Done) *outcomeMessage {
	m := &outcomeMessage{
		Result: d.Result, Signal: d.Signal, Reason: d.Reason, Note: d.Note,
		Stdout: outputMessage{len(d.Stdout.Kept), d.Stdout.Size},
		Stderr: outputMessage{len(d.Stderr.Kept), d.Stderr.Size},
	}
	if d.Code != nil {
		m.HasCode, m.Code = true, *d.Code
	}
	return m
}

func (m *outcomeMessage) done(stdout, stderr []byte) journal.Done {
	d := journal.Done{
		Result: m.Result, Signal: m.Signal, Reason: m.Reason, Note: m.Note,
		Stdout: journal.Output{Kept: stdout, Size: m.Stdout.Size},
		Stderr: journal.Output{Kept: stderr, Size: m.Stderr.Size},
	}
	if m.HasCode {
		d.Code = &m.Code
	}
	return d
}

// wire is one end of the socket. Sending and receiving are for one goroutine
// each.
type wire struct {
	socket  io.Writer
	encoder *gob.Encoder
	buffer  *bufio.Reader // the decoder reads no byte beyond a message from it
	decoder *gob.Decoder
}

func newWire(socket io.ReadWriter) *wire {
	buffer := bufio.NewReader(socket)
	return &wire{socket, gob.NewEncoder(socket), buffer, gob.NewDecoder(buffer)}
}

// send writes a message and the output that belongs to it.
func (w *wire) send(m message) error {
	if err := w.encoder.Encode(m); err != nil {
		return err
	}
	for _, kept := range m.outputs {
		if len(kept) == 0 {
			continue
		}
		if _, err := w.socket.Write(kept); err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) receive() (message, error) {
	var m message
	if err := w.decoder.Decode(&m); err != nil {
		return message{}, err
	}
	if m.Done == nil || m.Done.Later {
		return m, nil
	}
	for i, output := range []outputMessage{m.Done.Stdout, m.Done.Stderr} {
		kept := make([]byte, output.Kept)
		if _, err := io.ReadFull(w.buffer, kept); err != nil {
			return message{}, fmt.Errorf("receive output: %w", err)
		}
		m.outputs[i] = kept
	}
	return m, nil
}

// checkHello refuses a peer that speaks another version.
func checkHello(m message) error {
	if m.Kind != kindHello {
		return fmt.Errorf("hello expected, got kind %d", m.Kind)
	}
	if m.Version != protocolVersion {
		return fmt.Errorf("the other side speaks version %d, this one %d", m.Version, protocolVersion)
	}
	return nil
}
