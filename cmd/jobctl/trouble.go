package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jobd/cmd/internal/page"
	"jobd/net/api"
)

// trouble is something that does not go as it should: what follows from it, and why it is so.
type trouble struct {
	worker string // "" where there is only one
	effect string
	target string // for which nothing is claimed: the effect
	cause  string
}

// troublesOf are those of one worker: what is away first, then what follows from that.
func (p *program) troublesOf(name string, s *workerStatus) (list []trouble) {
	add := func(is bool, effect, cause string) {
		if is {
			list = append(list, trouble{worker: name, effect: effect, cause: cause})
		}
	}
	if d := s.Database; d != nil {
		add(!d.Reachable, "the database is away"+p.sinceSuffix(d.Since), d.Error)
	}
	if j := s.Journal; j != nil {
		add(j.Full != "", "the journal's disk is full"+p.sinceSuffix(j.FullSince), j.Full)
	}
	if r := s.Runner; r != nil {
		add(!r.Reachable, "the runner is not connected"+p.sinceSuffix(r.Since), r.Error)
	}
	if h := s.Launcher; h != nil {
		add(true, "nothing is started"+p.sinceSuffix(h.Since), h.Broken)
	}
	for _, h := range s.NotReady {
		add(h.What != "launcher" || s.Launcher == nil, "it takes no work"+p.sinceSuffix(h.Since), h.What+": "+h.Why)
	}
	for _, target := range slices.Sorted(maps.Keys(s.Targets)) {
		said := slices.ContainsFunc(s.Executors, func(e api.ExecutorStatus) bool {
			return e.Target == target && e.Unready != "" && strings.Contains(s.Targets[target].Why, e.Unready)
		})
		if why := s.Targets[target].Why; why != "" && !said {
			list = append(list, trouble{worker: name, target: target, cause: why})
		}
	}
	for _, m := range s.Masters {
		add(!m.Registered, "it is not registered with the master "+m.Address+p.sinceSuffix(m.Since), m.Error)
	}
	return list
}

// printTroubles prints what keeps workers from their work: each cause once, behind all that follows
// from it; nothing where nothing does, or where workers are older and do not tell.
func (p *program) printTroubles(s *census) {
	var all []trouble
	for _, w := range s.workers {
		if w.err == nil && w.answer != nil {
			all = append(all, p.troublesOf(w.from.name, w.answer)...)
		}
	}
	for _, err := range s.why {
		all = append(all, trouble{effect: "what waits is not known", cause: err.Error()})
	}
	var lines strings.Builder
	for _, same := range byCause(all) {
		text := same.effects() + ": " + same.cause
		if p.terminal {
			text = strings.Join(page.Wrap(text, cmp.Or(p.columns(), page.Width)-len(indent)), "\n"+indent)
		}
		lines.WriteString(text + "\n")
	}
	p.paragraph(lines.String())
}

// indent stands before the further lines of a paragraph.
const indent = "    "

// cause is why some troubles are there.
type cause struct {
	cause    string
	troubles []trouble
}

// tellsEnough is from how many characters on a cause within a longer text is taken for the same one.
const tellsEnough = 30

// byCause puts troubles together that have the same cause, or tell that of an earlier one.
func byCause(all []trouble) (list []*cause) {
	for _, t := range all {
		t.cause = clean(strings.TrimSpace(t.cause))
		i := slices.IndexFunc(list, func(c *cause) bool {
			return t.cause == c.cause || len(c.cause) >= tellsEnough && strings.Contains(t.cause, c.cause)
		})
		if i < 0 {
			list = append(list, &cause{t.cause, []trouble{t}})
			continue
		}
		list[i].troubles = append(list[i].troubles, t)
	}
	return list
}

// mostTargetsNamed is how many targets one sentence names.
const mostTargetsNamed = 8

// effects is all that follows, of each worker in turn.
func (c *cause) effects() string {
	var words []string
	for i := 0; i < len(c.troubles); {
		worker := c.troubles[i].worker
		var effects, targets []string
		for ; i < len(c.troubles) && c.troubles[i].worker == worker; i++ {
			if t := c.troubles[i]; t.target != "" {
				targets = append(targets, clean(t.target))
			} else if effect := clean(t.effect); !slices.Contains(effects, effect) {
				effects = append(effects, effect)
			}
		}
		if more := len(targets) - mostTargetsNamed; more > 0 {
			targets = append(targets[:mostTargetsNamed:mostTargetsNamed], fmt.Sprintf("%d more", more))
		}
		switch len(targets) {
		case 0:
		case 1:
			effects = append(effects, "nothing is claimed for target "+targets[0])
		default:
			effects = append(effects, "nothing is claimed for targets "+strings.Join(targets[:len(targets)-1], ", ")+" and "+targets[len(targets)-1])
		}
		text := strings.Join(effects, ", ")
		if worker != "" {
			text = "worker " + clean(worker) + ": " + text
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}
