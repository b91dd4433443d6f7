package operator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/screen"
	"jobd/journal"
)

// This file says in one line what an event says: names and values, for a log. What it means for a job,
// and in sentences, is a Narrator's.

// RowNotTold stands for a row that exists, and of which the journal does not say more.
const RowNotTold = "not told"

// Describe tells in one line what a payload says.
func Describe(payload journal.Payload) string {
	switch e := payload.(type) {
	case journal.Accepted:
		return describeAccepted(e)
	case journal.Ignored:
		return screen.Clean(e.Reason)
	case journal.Released:
		return screen.Clean(e.Reason)
	case journal.Running:
		return pairs("attempt", e.Attempt, "timeout", someSeconds(e.Timeout), "executor", e.Executor)
	case journal.Started:
		if e.Address != "" {
			return pairs("address", e.Address)
		}
		return pairs("pid", e.Pid)
	case journal.Signal:
		return pairs("signal", SignalName(e.Signo), "by", e.By, "ends", someYes(e.Ends))
	case journal.Done:
		return describeDone(e)
	case journal.Conflict:
		return describeConflict(e)
	case journal.SetAside:
		return pairs("wanted", e.Wanted, "reason", e.Reason)
	case journal.Marked:
		return pairs("mark", e.Mark)
	case journal.Server:
		return pairs("server", e.Server, "before", e.Before, "mended", e.Mended, "left", e.Left)
	case journal.Runner:
		return pairs("instance", e.Instance, "before", e.Before)
	case journal.Opened:
		return pairs("name", e.Name, "version", e.Version, "pid", e.Pid, "targets", concurrencies(e.Targets),
			"host", e.Host, "launcher", strings.Join(e.Launcher, " "), "launchers", describeLaunchers(e.Launchers))
	case journal.Closed:
		return screen.Clean(e.Reason)
	case journal.Paused:
		return pairs("targets", strings.Join(e.Targets, ","), "by", e.By)
	case journal.Continued:
		return pairs("targets", strings.Join(e.Targets, ","), "by", e.By)
	case journal.TargetAdded:
		return pairs("target", e.Target, "concurrency", e.Concurrency, "by", e.By)
	case journal.TargetRemoved:
		return pairs("target", e.Target, "by", e.By)
	case journal.Requeued:
		return pairs("reason", e.Reason, "by", e.By)
	case journal.Cancelled:
		return describeCancelled(e)
	case journal.Retried:
		return pairs("from", e.From, "result", e.Result, "to", e.To, "by", e.By)
	case journal.Planned:
		return describePlanned(e)
	case journal.Replanned:
		return describeReplanned(e)
	case journal.Requested:
		return pairs("request", e.Request, "jobs", SomeIDs(e.Jobs, e.More), "about", e.About, "workers", listed(e.Workers, e.Others), "by", e.By)
	case journal.Refused:
		return pairs("request", e.Request, "jobs", SomeIDs(e.Jobs, e.More), "about", e.About, "reason", e.Reason, "by", e.By, "more_times", someTimes(e.Times))
	case journal.Registered:
		return pairs("worker", e.Worker, "targets", listed(e.Targets, e.More), "by", e.By, "more_times", someTimes(e.Times))
	case journal.Left:
		return pairs("worker", e.Worker, "reason", e.Reason, "by", e.By, "more_times", someTimes(e.Times))
	case journal.Reloaded:
		return pairs("file", e.File, "digest", e.Digest, "changed", strings.Join(e.Changed, ","), "launcher", strings.Join(e.Launcher, " "),
			"launchers", describeLaunchers(e.Launchers), "by", e.By)
	case journal.Reapplied:
		return describeReapplied(e)
	case journal.Retention:
		return pairs("first", e.First, "last", e.Last, "seq", e.Seq, "archive", e.Archive, "reason", e.Reason)
	case journal.ConcurrencySet:
		return pairs("target", e.Target, "concurrency", e.Concurrency, "by", e.By)
	}
	return ""
}

// describeCancelled tells who cancelled a job, and, where that runs, how long it gets to end.
func describeCancelled(e journal.Cancelled) string {
	grace := ""
	if e.Runs {
		grace = (time.Duration(e.Grace) * time.Microsecond).String()
	}
	return pairs("by", e.By, "grace", grace)
}

func describeDone(e journal.Done) string {
	parts := []any{"result", e.Result}
	if e.Code != nil {
		parts = append(parts, "code", *e.Code)
	}
	elapsed := ""
	if ran, known := measured(e); known {
		elapsed = ran.String()
	}
	parts = append(parts, "signal", e.Signal, "stdout", e.Stdout.Size, "stderr", e.Stderr.Size, "elapsed", elapsed, "reason", e.Reason)
	parts = append(parts, "timeout", someSeconds(e.Timeout), "final", someYes(e.Final), "retry-after", someSeconds(e.RetryAfter))
	return words(pairs(parts...), describeAgain(e.Again))
}

func describeConflict(e journal.Conflict) string {
	found := "the row is gone"
	switch {
	case e.Found == nil && e.Reason != "": // its update was refused
		found = RowNotTold
	case e.Found != nil:
		found = fmt.Sprintf("status=%s owner=%s", screen.Clean(e.Found.Status), quoteIfNeeded(screen.Clean(e.Found.Owner)))
	}
	return strings.TrimRight("found: "+found+" "+pairs("wanted", e.Wanted, "reason", e.Reason), " ")
}

// describeReapplied tells of a reapply, which has an event before its first row and one behind its
// last.
func describeReapplied(e journal.Reapplied) string {
	if e.Ended {
		return pairs("rows", e.Rows, "refused", e.Refused, "journal", e.Journal, "by", e.By)
	}
	since := ""
	if e.Since != 0 {
		since = time.UnixMicro(e.Since).UTC().Format(time.RFC3339)
	}
	return pairs("from", e.From, "to", e.To, "since", since, "journal", e.Journal, "rows", someTimes(e.Rows), "by", e.By, "notes", e.Notes)
}

// DescribeRow puts a row into words.
func DescribeRow(row history.Row) string {
	return pairs("status", row.Status, "target", row.Target, "owner", row.Owner, "result", row.Result)
}

// someTimes is a count that is left out where there is none.
func someTimes(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// SomeIDs lists ids, the first few of many; so many more are not among them.
func SomeIDs(ids []int64, unlisted int) string {
	const most = 8
	var parts []string
	for _, id := range ids[:min(len(ids), most)] {
		parts = append(parts, fmt.Sprint(id))
	}
	return listed(parts, max(len(ids)-most, 0)+unlisted)
}

// listed are names, and how many there are beyond those.
func listed(names []string, more int) string {
	text := strings.Join(names, ",")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func concurrencies(targets map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		parts = append(parts, fmt.Sprintf("%s:%d", name, targets[name]))
	}
	return strings.Join(parts, ",")
}

// pairs prints names and values, leaving out the empty ones.
func pairs(namesAndValues ...any) string {
	var parts []string
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if value := screen.Clean(fmt.Sprint(namesAndValues[i+1])); value != "" {
			parts = append(parts, fmt.Sprintf("%s=%s", namesAndValues[i], quoteIfNeeded(value)))
		}
	}
	return strings.Join(parts, " ")
}

// quoteIfNeeded puts text that was cleaned into quotes where it would not be one word without.
func quoteIfNeeded(text string) string {
	if text == "" || strings.ContainsAny(text, " \"=") {
		return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
	}
	return text
}

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

// describeLaunchers are the launchers of targets that have one of their own.
func describeLaunchers(launchers map[string][]string) string {
	var all []string
	for _, target := range slices.Sorted(maps.Keys(launchers)) {
		all = append(all, target+": "+strings.Join(launchers[target], " "))
	}
	return strings.Join(all, "; ")
}

// SignalName is the name of a signal, or its number where it has none.
func SignalName(signo int) string {
	if name := unix.SignalName(syscall.Signal(signo)); name != "" {
		return name
	}
	return strconv.Itoa(signo)
}
