package main

import (
	"strings"
	"time"

	"jobd/journal"
)

// This file has the lines of events that tell of time: when a row was due, and when it comes back.

// describeAccepted tells of a claim: what its row said about time, where it said something.
func describeAccepted(e journal.Accepted) string {
	text := pairs("target", e.Target, "token", e.Token, "manual", someYes(e.Manual), "from", e.From)
	if plan := e.Plan; plan != nil {
		text = words(text, pairs("due", someMoment(plan.RunAt), "planned", someMoment(e.PlannedAt),
			"attempts", someCount(plan.Attempts), "schedule", plan.Schedule, "zone", plan.Zone))
	}
	return text
}

// describePlanned tells of a row that was not run, and is due at another time.
func describePlanned(e journal.Planned) string {
	return words(pairs("target", e.Target, "was_due", someMoment(e.From.RunAt)), describeAgain(&e.To), pairs("reason", e.Reason, "by", e.By))
}

// describeReplanned tells what follows a run whose schedule was edited meanwhile.
func describeReplanned(e journal.Replanned) string {
	follows := describeAgain(e.Again)
	if e.Again == nil {
		follows = "again=no"
	}
	return words(pairs("schedule", e.Schedule, "zone", e.Zone), follows, pairs("note", e.Note))
}

// describeAgain tells when a row comes back, and why; "" where it does not.
func describeAgain(again *journal.Again) string {
	if again == nil {
		return ""
	}
	planned := ""
	if again.PlannedAt != again.RunAt {
		planned = someMoment(again.PlannedAt)
	}
	return pairs("again", someMoment(again.RunAt), "planned", planned, "attempts", someCount(again.Attempts), "why", again.Why)
}

// words joins texts by blanks, without those that are empty.
func words(texts ...string) string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, " ")
}

// someMoment is a time of a row, in UTC; "" where there is none.
func someMoment(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
}

// someSeconds is a length of time; "" where there is none.
func someSeconds(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return (time.Duration(seconds) * time.Second).String()
}

// someCount is a count that is left out where there is none.
func someCount(n int64) string { return someTimes(int(n)) }

// someYes is the word of what holds, and is left out where it does not.
func someYes(holds bool) string {
	if !holds {
		return ""
	}
	return "yes"
}
