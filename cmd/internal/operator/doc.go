// Package operator is what one asks of workers and masters, and how the answers of many become one.
// It prints nothing and knows no flags: jobctl's commands stand on it.
//
//	Daemon ── Ask ──────────► one answer, over a link that is made anew where it was lost
//	  │
//	  ├─ Workers, Direct ───► Worker ── Ask ──► the same of one worker, through its master
//	  │
//	  ├─ All ───────────────► every worker's answer, or why it has none (Silent names those)
//	  ├─ first ─────────────► of workers that share a table: the first that can
//	  └─ share ─────────────► each target of one worker that serves it
//
// What is asked for is one of these three. What a command makes of the answers stands on them: a
// Census of all that a daemon leads to, added up by target (Tally), and its Health, which is what is
// wrong; verdicts on jobs (Why), and the whole Story of one; Rows of the table; Journals, which are
// read from folders or through workers and merged by time, whose events a narrator puts into words,
// and where FindFailed finds what failed; rows that recur, or come at a time; a Retrying and a
// Cancelling, which find the jobs before they do anything.
//
// Who is asked has a time for the answer (Config.Patience; requests that wait by themselves have
// more). A worker that is silent does not take the others' answers away: it is an error beside them.
// Whether a request without an answer was carried out nobody knows: LeftOpen says where that
// is so, and such a request goes to nobody else. What goes on through outages is a Lasting.
package operator
