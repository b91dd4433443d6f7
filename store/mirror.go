package store

import (
	"log/slog"
	"time"

	"jobd/journal"
)

// Config says what a mirror connects.
type Config struct {
	Source   Source
	Bookmark Bookmark
	Table    Applier
	Logger   *slog.Logger

	// Server is the server that the table was last found on, according to the journal; "" where
	// that is not known.
	Server string

	// Together is how long claims wait on another server at least, counted from when it was met.
	// Other workers of the table compare their rows in that time: one that claimed before might
	// take a row that another has run and not mended yet.
	Together time.Duration

	// OnReturn is called when claims can succeed again: the table is reached after an outage, or
	// its server was confirmed. It must not block.
	OnReturn func()

	// OnGivenBack is called with the targets of rows that read waiting again by the mirror's work, or
	// delayed later than was expected, before anybody who waits for that is told. It must not block.
	OnGivenBack func(targets []string)

	// Replan says what follows the end of a run whose row has another schedule by now than its
	// claim had. It is asked where rows may recur.
	Replan func(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned

	// Pulse is told how the mirror goes; nil: nobody is.
	Pulse Pulse
}

// Mirror follows the journal in order and brings the table up to date. It
// gives up on no event and is held up by no single row; while the table cannot be reached it
// waits, and the journal holds what is owed.
type Mirror struct {
	Config
	*progress
	*outage
	serverCheck
	claims    *claims
	former    uint64      // the newest event that is a former process's
	lively    time.Time   // when something was mirrored last
	rested    bool        // the bookmark is on disk since
	confirmed bool        // claims are let on the server that the table is on
	back      *comparison // of another server with the journal; nil while there is none under way
}

// Aside lists the rows that can't be updated for now, by job.
func (m *Mirror) Aside() []Aside { return m.listAside() }
