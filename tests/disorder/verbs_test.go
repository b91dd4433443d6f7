package disorder

import (
	"slices"
	"strconv"
	"time"
)

// verb is one sort of step.
type verb struct {
	name   string
	weight int      // how often it is drawn, in comparison
	args   []string // their sorts, see argValues
	do     func(s *site, args []string)
}

// verbs is what can happen at a site, by who does it.
var verbs []verb

func init() { // the steps refer to the table
	verbs = []verb{
		// The application: with the poke that follows its COMMIT, and without.
		{"insert", 14, []string{"target", "few", "tempo"}, func(s *site, a []string) {
			s.insert(a[0], number(a[1]), a[2], waiting)
			s.poke(a[0])
		}},
		{"slip", 4, []string{"target", "few", "tempo"}, func(s *site, a []string) { s.insert(a[0], number(a[1]), a[2], waiting) }},
		{"later", 4, []string{"target", "few", "seconds"}, func(s *site, a []string) { s.insertLater(a[0], number(a[1]), number(a[2])) }},
		{"late", 4, []string{"target", "few"}, func(s *site, a []string) { s.insertLate(a[0], number(a[1])) }},
		{"commit", 2, nil, func(s *site, _ []string) { s.commitOldest() }},
		{"lock", 5, []string{"row", "few"}, func(s *site, a []string) { s.lock(number(a[0]), number(a[1])) }},
		{"insert-locked", 4, []string{"target", "few"}, func(s *site, a []string) { s.insertLocked(a[0], number(a[1])) }},
		{"unlock", 2, nil, func(s *site, _ []string) { s.unlockOldest() }},
		{"refuse", 4, []string{"errno", "moment", "mod", "rest"}, func(s *site, a []string) {
			s.refuse(a[0], a[1], number(a[2]), number(a[3]))
		}},
		{"allow", 2, nil, func(s *site, _ []string) { s.allow() }},
		{"null", 2, []string{"row", "column"}, func(s *site, a []string) { s.null(number(a[0]), a[1]) }},
		{"reset", 2, []string{"row"}, func(s *site, a []string) { s.reset(number(a[0])) }},
		{"delete", 1, []string{"row"}, func(s *site, a []string) { s.delete(number(a[0])) }},

		// Clients and operators.
		{"poke", 4, []string{"target"}, func(s *site, a []string) { s.poke(a[0]) }},
		{"poll", 3, []string{"worker"}, func(s *site, a []string) { s.poll(s.worker(a[0])) }},
		{"manual", 5, []string{"server", "target", "few", "tempo"}, func(s *site, a []string) {
			s.runManual(a[0], a[1], number(a[2]), a[3])
		}},
		{"cancel", 3, []string{"worker", "row"}, func(s *site, a []string) { s.cancel(s.worker(a[0]), number(a[1])) }},
		{"pause", 5, []string{"worker", "target"}, func(s *site, a []string) { s.pause(s.worker(a[0]), a[1]) }},
		{"continue", 3, []string{"worker", "target"}, func(s *site, a []string) { s.resume(s.worker(a[0]), a[1]) }},
		{"pause-all", 1, []string{"target"}, func(s *site, a []string) { s.pauseAll(a[0]) }},
		{"continue-all", 1, []string{"target"}, func(s *site, a []string) { s.continueAll(a[0]) }},
		{"add", 2, []string{"worker", "target", "slots"}, func(s *site, a []string) { s.addTarget(s.worker(a[0]), a[1], number(a[2])) }},
		{"remove", 2, []string{"worker", "target"}, func(s *site, a []string) { s.removeTarget(s.worker(a[0]), a[1]) }},
		{"slots", 2, []string{"worker", "target", "slots"}, func(s *site, a []string) { s.setSlots(s.worker(a[0]), a[1], number(a[2])) }},
		{"reload", 3, []string{"worker", "set", "slots"}, func(s *site, a []string) { s.reload(s.worker(a[0]), a[1], number(a[2])) }},
		{"stop", 4, []string{"worker"}, func(s *site, a []string) { s.stop(s.worker(a[0])) }},
		{"start", 4, []string{"worker"}, func(s *site, a []string) { s.start(s.worker(a[0])) }},

		// What nobody wanted.
		{"kill", 5, []string{"worker"}, func(s *site, a []string) { s.kill(s.worker(a[0])) }},
		{"crash", 1, []string{"worker"}, func(s *site, a []string) { s.crash(s.worker(a[0])) }},
		{"kill-runner", 2, []string{"worker"}, func(s *site, a []string) { s.killRunner(s.worker(a[0])) }},
		{"kill-master", 2, nil, func(s *site, _ []string) { s.killMaster() }},
		{"start-master", 2, nil, func(s *site, _ []string) { s.startMaster() }},
		{"cut-table", 3, []string{"worker"}, func(s *site, a []string) { s.spoilt(a[0]).cut() }},
		{"freeze-table", 3, []string{"worker"}, func(s *site, a []string) { s.spoilt(a[0]).hold() }},
		{"deafen-table", 1, []string{"worker"}, func(s *site, a []string) { s.spoilt(a[0]).deafen(both) }},
		{"heal-table", 3, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).table.heal() }},
		{"cut-line", 2, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).line.cut() }},
		{"deafen-line", 3, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).line.deafen(answers) }},
		{"heal-line", 2, []string{"worker"}, func(s *site, a []string) { s.worker(a[0]).line.heal() }},
		{"restart-server", 2, nil, func(s *site, _ []string) { s.restartServer() }},

		{"wait", 10, []string{"ms"}, func(_ *site, a []string) { <-time.After(time.Duration(number(a[0])) * time.Millisecond) }},
		{"quiet", 4, nil, func(s *site, _ []string) { s.quiet() }},
	}
}

func verbNamed(name string) *verb {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		return nil
	}
	return &verbs[i]
}

// number reads an argument that was checked.
func number(arg string) int {
	n, err := strconv.Atoi(arg)
	if err != nil {
		panic(err)
	}
	return n
}
