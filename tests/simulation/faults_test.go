package simulation

import (
	"math/rand/v2"
	"time"
)

// kinds are the kinds of fault. Those without a function happen at steps of somebody's work, see chance.
var kinds = []struct {
	name string
	do   func(w *world, random *rand.Rand)
}{
	{"commits", nil}, // the answer to COMMIT is lost, on its way there or back
	{"starts", nil},  // no process can be made
	{"pokes", nil},   // the application's is lost, or comes twice
	{"kills", func(w *world, random *rand.Rand) { w.newest(random).kill() }},
	{"power", func(w *world, random *rand.Rand) { w.newest(random).cutPower() }},
	{"restarts", func(w *world, random *rand.Rand) {
		p := w.newest(random)
		w.tasks.Go(p.restart)
	}},
	{"links", func(w *world, random *rand.Rand) {
		p := w.newest(random)
		p.session.cut(fewSeconds(random))
		p.worker.LookAtTable()
	}},
	{"locks", func(w *world, random *rand.Rand) { w.server.hold(w.server.memory.Locked, random, fewSeconds(random)) }},
	{"refusals", func(w *world, random *rand.Rand) { w.server.hold(w.server.memory.Refused, random, fewSeconds(random)) }},
	{"slow", func(w *world, random *rand.Rand) {
		w.server.trouble(fewSeconds(random), func(on bool) { w.server.slow = 1 + 99*count(on) })
	}},
	{"outage", func(w *world, random *rand.Rand) {
		w.server.trouble(fewSeconds(random), func(on bool) { w.server.away = on })
	}},
	{"masters", func(w *world, random *rand.Rand) {
		l := w.masters[random.IntN(len(w.masters))]
		switch random.IntN(3) {
		case 0:
			l.stop()
			pass(fewSeconds(random))
			l.rule()
		case 1:
			w.network.stall(l.address, fewSeconds(random))
		default:
			w.network.cut(l.address, 1+random.IntN(5))
		}
	}},
}

// fewSeconds is how long a fault lasts: some seconds, and sometimes some minutes.
func fewSeconds(random *rand.Rand) time.Duration {
	return time.Duration(min(180, random.ExpFloat64()*random.ExpFloat64()*10) * float64(time.Second))
}

// newest is the process of a machine.
func (w *world) newest(random *rand.Rand) *process {
	m := w.all[random.IntN(len(w.all))]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// misfortune makes faults until all rows are inserted. What is under way then ends by itself.
func (w *world) misfortune(over <-chan struct{}) {
	random := rand.New(rand.NewPCG(w.seed, 2))
	every := 60 * time.Second / time.Duration(w.workers+3)
	for !isClosed(over) {
		pass(time.Duration(random.ExpFloat64() * float64(every)))
		kind := kinds[random.IntN(len(kinds))]
		if kind.do != nil && w.chance(kind.name, 1) {
			w.note(kind.name, 0)
			kind.do(w, random)
		}
	}
	close(w.healed)
}
