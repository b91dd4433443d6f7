package host

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// news is what the worker is to be told about pools.
type news struct {
	changed bool // something may have
	all     bool // a new worker is there
	notes   []wire.Note
	dropped int
	told    []wire.Standing
	at      int64 // when it was told the last time
}

// newsTime is how far messages are apart; mostNotes is how many notes wait for a worker.
const (
	newsTime  = int64(100 * time.Millisecond)
	mostNotes = 100
)

// publish tells the worker what has changed, all of it at once, some times a second.
func (ps *pools) publish() {
	n := &ps.news
	if !n.changed && !n.all && len(n.notes) == 0 {
		return
	}
	now := proc.Uptime()
	if now < n.at+newsTime && !n.all {
		ps.wakeAt(n.at + newsTime)
		return
	}
	n.changed = false
	standings := ps.standings()
	if !n.all && len(n.notes) == 0 && reflect.DeepEqual(standings, n.told) {
		return
	}
	notes := n.notes
	if n.dropped > 0 {
		notes = append([]wire.Note{{Level: slog.LevelWarn, Text: "more was noted about kept processes than could be told"}}, notes...)
	}
	if ps.tell(wire.Message{Kind: wire.Pools, Standings: standings, Notes: notes}) {
		n.notes, n.dropped, n.told, n.all, n.at = nil, 0, standings, false, now
	} else {
		n.all, n.at = false, now
	}
}

// note adds a note. The oldest go where there are too many.
func (ps *pools) note(level slog.Level, p *pool, k *kept, job int64, text string) {
	note := wire.Note{Level: level, Target: p.def.Target, Job: job, Text: text}
	if k != nil {
		note.Pid = k.started.Pid
	}
	n := &ps.news
	if len(n.notes) == mostNotes {
		n.notes = n.notes[1:]
		n.dropped++
	}
	n.notes = append(n.notes, note)
}

func (ps *pools) warn(p *pool, k *kept, job int64, text string) {
	ps.note(slog.LevelWarn, p, k, job, text)
}

// standings tell how the pools stand, in the order of their targets.
func (ps *pools) standings() []wire.Standing {
	all := make([]wire.Standing, 0, len(ps.byTarget))
	for _, target := range slices.Sorted(maps.Keys(ps.byTarget)) {
		p := ps.byTarget[target]
		wish := p.def.Wish
		s := wire.Standing{
			Target: target, Mode: p.def.Mode, Processes: len(p.processes), Booting: p.booting,
			Boots: p.boots, Jobs: p.jobs, Recycled: maps.Clone(p.recycled), Unready: p.unready,
			Wish: &wish, Old: p.count(func(k *kept) bool { return k.version != p.version }),
			Era: p.def.Era, Tight: p.tight.why, TightSince: p.tight.since,
		}
		switch {
		case p.unready != "":
			s.Since = p.failed
		case p.failure != "" && p.count((*kept).able) > 0 && p.count((*kept).stays) < p.wanted:
			s.Failing, s.Since = p.failure, p.failed
		}
		s.Ready = p.count(func(k *kept) bool { return k.state == idle })
		s.Busy = p.count(func(k *kept) bool { return k.state == asked || k.state == busy })
		all = append(all, s)
	}
	return all
}
