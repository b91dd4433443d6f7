package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"jobd/examples/clients/client"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// pair is two masters of which one is in trouble, again and again, and clients that know both.
type pair struct {
	*site
	masters []*harness.Daemon
	configs []string
	links   []harness.Link // to each, of workers and clients alike
	client  client.Client

	poking  sync.Mutex // held for as long as one poke takes
	poked   sync.Map   // by job: when its poke began
	manual  atomic.Int64
	runs    atomic.Int64
	unknown atomic.Int64 // runs whose client was told that it may have been done
	answers atomic.Int64 // of runs whose connection was kept open for more
}

// clockTime is how times are told.
const clockTime = "05.000"

// The first id of the jobs that clients have run by hand.
const firstManual = 1_000_000

// One of two masters is killed, stopped or cut off under load, at moments that come from a seed. Workers
// never look by themselves here. Whoever pokes both has each job started while the trouble goes on, and no
// request is answered twice or done twice.
func TestOneOfTwoMastersFails(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	if text := os.Getenv("JOBD_TEST_SEED"); text != "" {
		seed, _ = strconv.ParseInt(text, 10, 64)
	}
	t.Logf("JOBD_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 34))
	p := newPair(t)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { p.pokes(ctx, t) })
	for range 3 {
		clients.Go(func() { p.runsByHand(ctx, t) })
	}
	faults := []func(int, time.Duration){
		func(i int, d time.Duration) {
			p.masters[i].Kill(t)
			p.trouble(t, d)
			p.masters[i] = harness.Launch(t, "jobd-master", p.configs[i], p.masters[i].Addr).Ready(t)
		},
		func(i int, d time.Duration) {
			p.masters[i].Signal(t, syscall.SIGSTOP)
			p.trouble(t, d)
			p.masters[i].Signal(t, syscall.SIGCONT)
		},
		func(i int, d time.Duration) {
			p.links[i].Silence(true)
			p.trouble(t, d)
			p.links[i].Silence(false)
		},
	}
	rounds := harness.Size(1, 12)
	for range rounds {
		for _, fault := range random.Perm(len(faults)) {
			<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
			which := random.IntN(2)
			t.Logf("%s: master %d is %s", time.Now().Format(clockTime), which, []string{"killed", "stopped", "cut off"}[fault])
			faults[fault](which, time.Duration(5000+random.IntN(1000))*time.Millisecond)
			for _, master := range p.masters { // both have all workers before the next one fails
				harness.AwaitWorkers(t, master, "", workersOfPair)
			}
		}
	}
	stop()
	clients.Wait()
	p.check(t, rounds*len(faults))
}

const (
	workersOfPair = 3
	targetsOfPair = 120 // each poked every six seconds, or more rarely
)

func newPair(t *testing.T) *pair {
	p := &pair{site: newSite(t, `echo "$id $(date +%s%N)" >> $dir/started`)}
	targets := map[string]int{"m": 4}
	for n := range targetsOfPair {
		targets[fmt.Sprint("t", n)] = 1
	}
	var addresses []string
	for range 2 {
		port := harness.FreePort(t)
		settings := harness.Settings{"host": "127.0.0.1", "port": port, "log_level_console": "info"}
		p.configs = append(p.configs, settings.Write(t))
		p.masters = append(p.masters, harness.Launch(t, "jobd-master", p.configs[len(p.configs)-1], settings.Addr()).Ready(t))
		link := harness.NewLink(t, settings.Addr())
		p.links = append(p.links, link)
		addresses = append(addresses, fmt.Sprint("127.0.0.1:", link.Port()))
	}
	p.client = client.Client{Addr: strings.Join(addresses, ", ")}
	for i := range workersOfPair {
		p.worker(fmt.Sprint("worker", i), targets, harness.Settings{
			"master_host": p.client.Addr, "master_port": "7081", "master_reconnect_timeout": "1",
		}).StartWorker(t)
	}
	for _, master := range p.masters {
		harness.AwaitWorkers(t, master, "", workersOfPair)
	}
	return p
}

// trouble lets some time pass. It ends when each job that was poked meanwhile has been started: a poke that is
// lost is lost for as long as this test waits.
func (p *pair) trouble(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	p.poking.Lock()
	defer p.poking.Unlock()
	p.AwaitCount(t, 0, "target <> 'm' AND status <> 'done'")
}

// pokes inserts jobs, one at a time, and pokes both masters for each. A target has its turn again when the
// trouble of its last one is nearly over.
func (p *pair) pokes(ctx context.Context, t *testing.T) {
	for n := 0; ctx.Err() == nil; n++ {
		target := fmt.Sprint("t", n%targetsOfPair)
		p.poking.Lock()
		p.insertWaiting(1, target)
		p.poked.Store(int64(p.jobs), time.Now())
		err := p.client.Poke(t.Context(), target)
		for again := 0; err != nil && again < 10; again++ { // nobody has acknowledged it: one is in trouble, and the other slow
			t.Logf("a poke is repeated: %v", err)
			err = p.client.Poke(t.Context(), target)
		}
		if err != nil {
			t.Errorf("poke: %v", err)
		}
		p.poking.Unlock()
		<-time.After(50 * time.Millisecond)
	}
}

// runsByHand has jobs run, one after the other: by the client that knows both masters, and over connections
// on which a second answer would be heard.
func (p *pair) runsByHand(ctx context.Context, t *testing.T) {
	for n := 0; ctx.Err() == nil; n++ {
		id := firstManual + p.manual.Add(1)
		p.Insert(t, id, "m", "manual")
		p.runs.Add(1)
		if n%2 == 1 {
			p.runOnce(t, id)
			continue
		}
		within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := p.client.Run(within, map[int64]string{id: "m"})
		cancel()
		var told *client.Error
		switch {
		case errors.As(err, &told) && (told.Code == "lost" || told.Code == "timeout"):
			p.unknown.Add(1)
		case err != nil:
			t.Errorf("run %d: %v", id, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// runOnce asks one master, and listens for a second answer.
func (p *pair) runOnce(t *testing.T, id int64) {
	wire := harness.Dial(t, fmt.Sprint("127.0.0.1:", p.links[id%2].Port()))
	defer wire.Close()
	if wire.Write(fmt.Appendf(nil, `[0,{"no":1,"type":"run-manual","data":{"jobs":[{"id":%d,"target":"m"}]}}]%c`, id, harness.EOT)) != nil {
		return
	}
	answers := 0
	for wait := 20 * time.Second; ; wait = 300 * time.Millisecond {
		text, err := wire.Receive(wait)
		if err != nil {
			break
		}
		if strings.HasPrefix(text, "[1,") {
			answers++
		}
	}
	if answers > 1 {
		t.Errorf("run %d was answered %d times", id, answers)
	}
	p.answers.Add(int64(answers))
}

// check says what became of all jobs.
func (p *pair) check(t *testing.T, faults int) {
	p.AwaitCount(t, 0, "target <> 'm' AND status <> 'done'")
	var waits []time.Duration
	started := must.Get(os.ReadFile(filepath.Join(p.oracle.Dir, "started")))(t)
	for text := range strings.Lines(string(started)) {
		var id, at int64
		if _, err := fmt.Sscan(text, &id, &at); err != nil {
			t.Fatalf("the launcher wrote %q: %v", text, err)
		}
		if poked, was := p.poked.Load(id); was {
			waits = append(waits, time.Unix(0, at).Sub(poked.(time.Time)))
		}
	}
	slices.Sort(waits)
	times := map[int64]int{}
	for _, begun := range p.oracle.Starts(t) {
		if times[begun.Job]++; times[begun.Job] > 1 {
			t.Errorf("job %d was started %d times", begun.Job, times[begun.Job])
		}
	}
	if p.answers.Load() == 0 || p.runs.Load() == p.unknown.Load() {
		t.Errorf("of %d runs %d are unknown, and %d answers came", p.runs.Load(), p.unknown.Load(), p.answers.Load())
	}
	t.Logf("%d faults; %d pokes: start after %v (median), %v (99 %%), %v (most); %d runs, %d of them unknown to the client",
		faults, len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1], p.runs.Load(), p.unknown.Load())
}
