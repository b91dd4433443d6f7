package host

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/exec/runner/proctest"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// bench is a runner without its process, and a worker that is this test.
type bench struct {
	t      *testing.T
	jobs   *jobs
	local  *reactor
	server *server
	conn   net.Conn
	out    *wire.Outbox
	served chan error
	read   chan struct{} // closed when nothing more is heard

	mu        sync.Mutex
	changed   *sync.Cond
	messages  map[int64][]wire.Message // by job
	standings []wire.Standing
	notes     []wire.Note
	hello     wire.Message
	lost      bool
	standing  func(wire.Standing) // looks at each; nil: nobody does
}

func newBench(t *testing.T) *bench { return newBenchWith(t, func(*pools) {}) }

// newBenchWith has the pools changed before they do anything.
func newBenchWith(t *testing.T, change func(*pools)) *bench {
	t.Helper()
	b := &bench{t: t, jobs: newJobs("this")}
	l := must.Get(newReactor(b.jobs))(t)
	change(l.pools)
	b.local, b.server = l, &server{jobs: b.jobs, reactor: l, logger: slog.New(slog.DiscardHandler)}
	returned := make(chan error)
	go func() { returned <- l.run() }()
	t.Cleanup(func() {
		if t.Failed() { // a job may wait for this test
			l.do(func() {
				for _, k := range l.pools.processes {
					k.kill("the test has failed")
				}
			})
		}
		l.pools.shutdown()
		l.stop()
		check.Do(t, <-returned)
	})
	b.connect()
	return b
}

// inEachMode runs a test with a bench of its own for each mode.
func inEachMode(t *testing.T, test func(t *testing.T, b *bench, mode string)) {
	t.Helper()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t), mode)
		})
	}
}

// connect has a new worker come.
func (b *bench) connect() {
	b.t.Helper()
	ours, theirs := proctest.Connected(b.t)
	served := make(chan error, 1)
	go func() { served <- b.server.serve(ours) }()
	b.served, b.conn, b.out = served, theirs, wire.NewOutbox(theirs)
	b.out.Post(wire.WorkerHello())
	b.mu.Lock()
	b.changed = sync.NewCond(&b.mu)
	b.messages, b.standings, b.notes, b.lost = map[int64][]wire.Message{}, nil, nil, false
	b.mu.Unlock()
	in := wire.NewReader(theirs)
	b.hello = must.Get(in.Next())(b.t)
	read := make(chan struct{})
	b.read = read
	go func() {
		defer close(read)
		for b.hear(in) {
		}
	}()
	b.t.Cleanup(b.leave)
}

// leave has the worker go.
func (b *bench) leave() {
	if b.conn == nil {
		return
	}
	b.out.Close()
	<-b.out.Written()
	b.conn.Close()
	check.Do(b.t, <-b.served)
	<-b.read
	b.conn = nil
}

func (b *bench) hear(in *wire.Reader) bool {
	m, err := in.Next()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.changed.Broadcast()
	if err != nil {
		b.lost = true
		return false
	}
	if m.Kind == wire.Pools {
		b.standings, b.notes = m.Standings, append(b.notes, m.Notes...)
		for _, s := range m.Standings {
			if b.standing != nil {
				b.standing(s)
			}
		}
		return true
	}
	b.messages[m.ID.Job] = append(b.messages[m.ID.Job], m)
	return true
}

// inReactor does something to the pools, and waits for it.
func (b *bench) inReactor(what func(*pools)) {
	b.t.Helper()
	done := make(chan struct{})
	ps := b.local.pools
	if !ps.reactor.do(func() { what(ps); close(done) }) {
		b.t.Fatal("the pools are closed")
	}
	<-done
}

// until waits until something holds of what was heard.
func (b *bench) until(what string, holds func() bool) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	alarm := time.AfterFunc(20*time.Second, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lost = true
		b.changed.Broadcast()
	})
	defer alarm.Stop()
	for !holds() {
		if b.lost {
			b.t.Fatalf("not so: %s; standings %+v, notes %+v, messages %+v", what, b.standings, b.notes, b.messages)
		}
		b.changed.Wait()
	}
}

// noted waits for a note that has a text.
func (b *bench) noted(text string) (note wire.Note) {
	b.t.Helper()
	b.until("a note has "+text, func() bool {
		i := slices.IndexFunc(b.notes, func(n wire.Note) bool { return strings.Contains(n.Text, text) })
		if i >= 0 {
			note = b.notes[i]
		}
		return i >= 0
	})
	return note
}

// stands waits until a pool stands so.
func (b *bench) stands(what string, so func(wire.Standing) bool) (standing wire.Standing) {
	b.t.Helper()
	b.until(what, func() bool {
		i := slices.IndexFunc(b.standings, so)
		if i >= 0 {
			standing = b.standings[i]
		}
		return i >= 0
	})
	return standing
}

// of waits for the message of a kind about a job.
func (b *bench) of(job int64, kind wire.Kind) (m wire.Message) {
	b.t.Helper()
	b.until("the job's message", func() bool {
		i := slices.IndexFunc(b.messages[job], func(m wire.Message) bool { return m.Kind == kind })
		if i >= 0 {
			m = b.messages[job][i]
		}
		return i >= 0
	})
	return m
}

// done waits for the end of a job, and has the runner forget it.
func (b *bench) done(job int64) journal.Done {
	b.t.Helper()
	m := b.of(job, wire.Ended)
	b.out.Post(wire.Message{Kind: wire.Forget, ID: m.ID})
	return m.Done
}

func id(job int64) wire.ID { return wire.ID{Job: job, Attempt: 1, Token: "@token2345"} }

// start asks for a job.
func (b *bench) start(job int64, vars ...string) {
	b.out.Post(wire.Message{
		Kind: wire.Start, ID: id(job), Argv: []string{"kept"}, MaxOutput: 1 << 20, Pool: "mail", Vars: vars,
	})
}

// run is a job from its start to its end.
func (b *bench) run(job int64, vars ...string) journal.Done {
	b.t.Helper()
	b.start(job, vars...)
	return b.done(job)
}

// pools says which pools the worker wants.
func (b *bench) pools(wanted ...wire.Pool) {
	b.out.Post(wire.Message{Kind: wire.Pools, Wanted: wanted})
}

// recycle has the processes of a pool replaced.
func (b *bench) recycle(p *wire.Pool, why string) {
	p.Wish, p.Why = p.Wish+1, why
	b.pools(*p)
}

// The loops of the tests, in programs that every Debian has. A job's work is the variable DO, which
// the process evaluates.
const (
	shellLoop = `echo ready >&4
while read -r word id attempt vars <&3; do
  test "$word" = quit && exit 0
  for v in $vars; do printf -v v %b "${v//%/\\x}"; export "$v"; done
  echo "started $id" >&4
  code=0; eval "$DO"
  echo "exit $id $code" >&4
done`
	forkLoop = `use POSIX; open(my $in, "<&=", 3); open(my $out, ">>&=", 4); $out->autoflush(1); $| = 1;
print $out "ready\n";
while (my $line = <$in>) {
  my ($word, $id, $attempt, @vars) = split ' ', $line;
  last if $word eq 'quit';
  my $pid = fork();
  if (!defined $pid) { print $out "refused $id\n"; next; }
  if ($pid) { waitpid($pid, 0); print $out "ended $id $?\n"; next; }
  setpgid(0, 0);
  s/%(..)/chr hex $1/ge, /^(\w+)=(.*)/s && ($ENV{$1} = $2) for @vars;
  print $out "started $id $$\n";
  eval $ENV{DO}; warn $@ if $@;
  exit 0;
}`
)

// pooled is a pool of these loops, by their mode.
func pooled(mode string, slots int) wire.Pool {
	p := wire.Pool{Target: "mail", Mode: mode, Slots: slots, Argv: []string{"/bin/bash", "-c", shellLoop}, Env: os.Environ()}
	if mode == "fork" {
		p.Argv = []string{"/usr/bin/perl", "-e", forkLoop}
	}
	return p
}
