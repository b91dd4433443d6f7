package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/journal"
)

// describe tells in one line what a payload says.
func describe(payload journal.Payload) string {
	switch e := payload.(type) {
	case journal.Accepted:
		return describeAccepted(e)
	case journal.Ignored:
		return clean(e.Reason)
	case journal.Released:
		return clean(e.Reason)
	case journal.Running:
		return pairs("attempt", e.Attempt, "timeout", someSeconds(e.Timeout), "executor", e.Executor)
	case journal.Started:
		if e.Address != "" {
			return pairs("address", e.Address)
		}
		return pairs("pid", e.Pid)
	case journal.Signal:
		return pairs("signal", signalName(e.Signo), "by", e.By, "ends", someYes(e.Ends))
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
	case journal.Opened:
		return pairs("name", e.Name, "version", e.Version, "pid", e.Pid, "targets", concurrencies(e.Targets),
			"host", e.Host, "launcher", strings.Join(e.Launcher, " "), "launchers", describeLaunchers(e.Launchers))
	case journal.Closed:
		return clean(e.Reason)
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
		return pairs("request", e.Request, "jobs", someIDs(e.Jobs, e.More), "by", e.By)
	case journal.Refused:
		return pairs("request", e.Request, "about", e.About, "reason", e.Reason, "by", e.By, "more_times", someTimes(e.Times))
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
		found = rowNotTold
	case e.Found != nil:
		found = fmt.Sprintf("status=%s owner=%s", clean(e.Found.Status), quoteIfNeeded(clean(e.Found.Owner)))
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

// someTimes is a count that is left out where there is none.
func someTimes(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// someIDs lists ids, the first few of many; so many more are not among them.
func someIDs(ids []int64, unlisted int) string {
	const most = 8
	var parts []string
	for _, id := range ids[:min(len(ids), most)] {
		parts = append(parts, fmt.Sprint(id))
	}
	text := strings.Join(parts, ",")
	if more := max(len(ids)-most, 0) + unlisted; more > 0 {
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
		if value := clean(fmt.Sprint(namesAndValues[i+1])); value != "" {
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
