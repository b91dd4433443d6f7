package main

import "jobd/journal"

// A worker is told in several ways that there may be something to do. What it is told it tells on, where others may
// do it too.

// onReturn is called when the table can be reached again.
func (d *daemon) onReturn() {
	d.worker.PollAll()
	go d.learnFoldsAgain() // the mirror does not wait for it
}

// onRegistered is called when a master knows this worker again. What the master was poked for in between nobody has
// heard.
func (d *daemon) onRegistered() { d.worker.PollAll() }

// onGivenBack is called when rows of these targets are waiting again that were this worker's: it may run them itself,
// if it still serves them, and so may every other worker that does.
func (d *daemon) onGivenBack(targets []string) {
	d.worker.GivenBack(targets)
	for _, agent := range d.agents {
		agent.Poke(targets)
	}
}

// onTargets is called when the worker serves other targets than before.
func (d *daemon) onTargets() {
	for _, agent := range d.agents {
		agent.TargetsChanged()
	}
}

// onServer is called when a connection has reached another database server than the table was last found on.
func (d *daemon) onServer() {
	if mirror := d.mirrored.Load(); mirror != nil { // else it asks by itself when it starts
		mirror.CheckServer()
	}
}

// onOdd is called for a row that can't be claimed because its id is none to jobd.
func (d *daemon) onOdd(row, target, reason string) { d.worker.NoteOdd(row, target, reason) }

// lastServer is the database server that the table was last found on, as the journal knows it.
func (d *daemon) lastServer() (server string) {
	d.journal.View(func(s *journal.State) { server = s.Server })
	return server
}
