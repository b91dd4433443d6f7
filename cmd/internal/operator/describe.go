package operator

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
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
// and in sentences, is a narrator's.

// RowNotTold stands for a row that exists, and of which the journal does not say more.
const RowNotTold = "not told"

// Describe tells in one line what a payload says: its fields by their names in the journal, without
// those that are empty.
func Describe(payload journal.Payload) string {
	switch e := payload.(type) {
	case journal.Accepted: // of other events a claim's token says little
		return fields("", "", e)
	case journal.Ignored:
		return screen.Clean(e.Reason)
	case journal.Released:
		return screen.Clean(e.Reason)
	case journal.Closed:
		return screen.Clean(e.Reason)
	case journal.Conflict:
		return strings.TrimRight("found: "+foundText(e)+" "+pairs("wanted", e.Wanted, "reason", e.Reason), " ")
	}
	return fields("", "token", payload)
}

// unsaid are the fields that a line leaves out: identities that only programs compare, and what other
// fields say.
var unsaid = []string{"boot_id", "start_time", "hash", "runner", "claimed", "kill_after", "created", "told", "runs", "ended"}

// units say of some fields what their numbers are.
var units = map[string]func(n int64) string{
	"elapsed": lengthOf(time.Microsecond), "grace": lengthOf(time.Microsecond),
	"timeout": lengthOf(time.Second), "retry_after": lengthOf(time.Second),
	"run_at": someMoment, "planned_at": someMoment,
	"since": func(n int64) string { return someMoment(n / 1e6) },
	"signo": func(n int64) string { return SignalName(int(n)) },
}

func lengthOf(unit time.Duration) func(int64) string {
	return func(n int64) string { return (time.Duration(n) * unit).String() }
}

// fields are the names and values of a struct's fields, the names behind a prefix; except is one that is left out.
func fields(prefix, except string, of any) string {
	value := reflect.ValueOf(of)
	var parts []string
	by := "" // who it was stands last
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		field := value.Field(i)
		if name == except || slices.Contains(unsaid, name) || field.IsZero() && name != "stdout" && name != "stderr" {
			continue
		}
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		unit, has := units[name]
		if name == "by" {
			by = pairs(prefix+name, field.String())
			continue
		}
		switch is := field.Interface().(type) {
		case journal.Output:
			parts = append(parts, pairs(prefix+name, is.Size))
		case journal.Plan, journal.Again:
			parts = append(parts, fields(name+".", "", is))
		case int64, int:
			text := fmt.Sprint(is)
			if has {
				text = unit(field.Int())
			}
			parts = append(parts, pairs(prefix+name, text))
		default:
			parts = append(parts, pairs(prefix+name, textOf(is)))
		}
	}
	return strings.Join(slices.DeleteFunc(append(parts, by), func(part string) bool { return part == "" }), " ")
}

// textOf is a value as a word of a log.
func textOf(value any) string {
	switch v := value.(type) {
	case bool:
		return "yes"
	case []string:
		return strings.Join(v, ",")
	case []int64:
		return SomeIDs(v, 0)
	case map[string]int:
		return joined(v, ":", ",", strconv.Itoa)
	case map[string][]string:
		return joined(v, ": ", "; ", func(words []string) string { return strings.Join(words, " ") })
	}
	return fmt.Sprint(value)
}

// joined is what a map says, in the order of its names.
func joined[V any](values map[string]V, between, behind string, text func(V) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+between+text(values[name]))
	}
	return strings.Join(parts, behind)
}

// foundText is the row that was met in place of the one that was wanted.
func foundText(e journal.Conflict) string {
	switch {
	case e.Found == nil && e.Reason != "": // its update was refused
		return RowNotTold
	case e.Found == nil:
		return "the row is gone"
	}
	return fmt.Sprintf("status=%s owner=%s", screen.Clean(e.Found.Status), quoteIfNeeded(screen.Clean(e.Found.Owner)))
}

// DescribeRow puts a row into words.
func DescribeRow(row history.Row) string {
	return pairs("status", row.Status, "target", row.Target, "owner", row.Owner, "result", row.Result)
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

// someMoment is a time of a row, in UTC.
func someMoment(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// someSeconds is a length of time; "" where there is none.
func someSeconds(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return (time.Duration(seconds) * time.Second).String()
}

// SignalName is the name of a signal, or its number where it has none.
func SignalName(signo int) string {
	return cmp.Or(unix.SignalName(syscall.Signal(signo)), strconv.Itoa(signo))
}
