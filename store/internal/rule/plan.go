package rule

import "jobd/journal"

// Recurs are the statuses of rows that are not at their end, as a list of SQL.
const Recurs = "'waiting', 'delayed', 'accepted', 'running'"

// LongestPlanText is how many characters of a schedule or a zone are read: a longer one is none, and
// nobody is to carry it about.
const LongestPlanText = 1000

// PlanFields are where a Plan is read to, in the order of its members.
func PlanFields(p *journal.Plan) []any {
	return []any{&p.RunAt, &p.PlannedAt, &p.Attempts, &p.MaxAttempts, &p.Timeout, &p.Schedule, &p.Zone}
}
