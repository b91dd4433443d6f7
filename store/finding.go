package store

import "context"

// Severity tells how bad a finding is.
type Severity int

// The severities.
const (
	Warning Severity = iota // it works, but not as somebody may expect
	Fault                   // it can't work: Check fails with it
)

// String implements fmt.Stringer.
func (s Severity) String() string {
	if s == Fault {
		return "fault"
	}
	return "warning"
}

// Finding is one thing that is wrong with a table, its server, the account, or the way there. No
// part of it holds a password.
type Finding struct {
	Severity Severity
	Where    string // the thing that it is about, as in: column target of `site`.`jobs`
	What     string // what is wrong with it
	Remedy   string // what mends it, a statement where there is one that can be pasted; "": nothing is known
}

// String is the finding in one line: where, what, remedy.
func (f Finding) String() string { return f.Where + ": " + f.Advice() }

// Advice is what is wrong, and the remedy, where it is known what the finding is about.
func (f Finding) Advice() string {
	if f.Remedy == "" {
		return f.What
	}
	return f.What + "; " + f.Remedy
}

// Inspector is what a Table offers beside, to those who want to know all at once.
type Inspector interface {
	// Findings examines the table as Check does, and the names of targets as Names does, and tells
	// everything that is wrong, faults first. It changes nothing, and logs nothing. An error means
	// that not everything could be asked; the findings up to there come with it, and among them is
	// one that explains the error.
	Findings(ctx context.Context, targets []string) ([]Finding, error)
}

// Inspection is what somebody who looks at a table and its server learns beside what is wrong with
// its layout.
type Inspection struct {
	Facts    []string // what is as it should be, in words
	Findings []Finding
}
