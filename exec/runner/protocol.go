package runner

import (
	"fmt"

	"jobd/journal"
)

// The worker and its runner are two ends of a stream socket, which carry messages. The worker begins with hello,
// the runner answers with its own, in which it lists the jobs it still has from workers before.
//
//	worker                                runner
//	hello {version, elapsed, jobs} ──►
//	                               ◄──    hello {version, instance, jobs}
//	environment {env}              ──►    for the starts that follow
//	start {id, spec}               ──►
//	                               ◄──    refused {id, text, class}
//	                               ◄──    started {id, process}, of a job that runs for some milliseconds
//	signal {id, signo}             ──►
//	                               ◄──    started, where it was not told yet
//	                               ◄──    signalled {id, text}, in the order of signals
//	                               ◄──    ended {id, process, done}, with the output where it is small
//	fetch {id}                     ──►
//	                               ◄──    output {id, process, done}, with the output
//	forget {id}                    ──►    the outcome is journalled
//
// A job is known from the moment its start was read to the moment its forget
// was, whoever is connected.
//
// A message is its length, four bytes with the lowest first, and its body: the kind, then its fields in the order of
// codec.go. The output follows the message of an end as it is, stdout then stderr, so that no copy of a large
// one is made on the way.
//
// A worker of this version says in its hello that it understands how long a job ran, in the field that names the instance in
// the runner's hello. A runner of this version puts that behind an outcome then. Older ones know nothing of it: an older runner
// passes over the word, and an older worker, which does not say it, gets outcomes without it.
//
// What else a worker understands it says in the list of jobs of its hello, for which it has no other use: a job with the number 0,
// which there is not, has the word in place of the boot. Older runners pass over the list. A runner that finds
// understandsClasses there puts the class behind the text of a refusal. Of an older one's the text has to do.

// protocolVersion changes when an old worker or runner would misunderstand a new one.
const protocolVersion = 2

// understandsElapsed is the worker's word for that.
const understandsElapsed = "elapsed"

// understandsClasses is the worker's word for the classes of refusals.
const understandsClasses = "classes"

// understands is the place for such a word.
func understands(word string) process { return process{Started: journal.Started{BootID: word}} }

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
	ID   id // all but hello and environment

	Version  int       // hello
	Instance string    // hello of the runner; of the worker: understandsElapsed
	Jobs     []process // hello of the runner; of the worker: what else it understands

	Argv      []string // start
	Dir       string   // start
	MaxOutput int      // start
	Env       []string // environment

	Started journal.Started // started, ended and output
	Text    string          // refused and signalled: why not; "" where it was
	Class   class           // refused; 0: it does not pass
	Signo   int             // signal
	Done    journal.Done    // ended and output
	Later   bool            // ended: the output does not follow; it is to be fetched
	Timed   bool            // ended and output: Done.Elapsed passes, too
}

// process is a job that a runner has.
type process struct {
	ID      id
	Started journal.Started
}

// inlineOutput is how many bytes of output may come with the news that a job ended. More is
// fetched when the worker has room for it, so that many jobs which end at once
// don't fill its memory.
const inlineOutput = 64 << 10

// ended tells how a job ended.
func ended(id id, started journal.Started, done journal.Done) message {
	later := len(done.Stdout.Kept)+len(done.Stderr.Kept) > inlineOutput
	return message{Kind: kindEnded, ID: id, Started: started, Done: done, Later: later}
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
