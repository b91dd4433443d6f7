package operator

import (
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
// and in sentences, is a Narrator's.

// Describe tells in one line what a payload says: its fields, by the names that they have in JSON, without what is
// empty; who wanted it comes last.
func Describe(payload journal.Payload) string {
	var parts []string
	_, claims := payload.(journal.Accepted) // whose token is told once
	if conflict, is := payload.(journal.Conflict); is && conflict.Found == nil {
		parts = append(parts, pairs("found", FoundText(conflict)))
	}
	parts = append(parts, fieldsOf("", reflect.ValueOf(payload), claims)...)
	return strings.Join(parts, " ")
}

// FoundText is the status of the row that a conflict met; of one that exists the journal may not tell it.
func FoundText(c journal.Conflict) string {
	switch {
	case c.Found != nil:
		return c.Found.Status
	case c.Reason != "": // its update was refused
		return "not told"
	}
	return "no row"
}

// unsaid are fields that mean nothing to a reader of a log: JSON has them.
var unsaid = []string{"boot_id", "start_time", "claimed", "runner", "kill_after", "created", "told", "finished", "hash", "cpu", "memory"}

// fieldsOf are the fields of a value as names and values. Those of a part of it have its name before theirs.
func fieldsOf(before string, of reflect.Value, token bool) (parts []string) {
	by := ""
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		value := reflect.Indirect(of.Field(i))
		switch {
		case !value.IsValid() || name == "-" || slices.Contains(unsaid, name) || name == "token" && !token:
		case name == "by":
			by = pairs(name, value.Interface())
		case value.Kind() == reflect.Struct && value.Type() != reflect.TypeFor[journal.Output]():
			parts = append(parts, fieldsOf(before+name+".", value, false)...)
		case of.Field(i).Kind() == reflect.Pointer: // a 0 says something
			parts = append(parts, pairs(before+name, value.Interface()))
		default:
			parts = append(parts, pairs(before+name, fieldText(name, value)))
		}
	}
	return slices.DeleteFunc(append(parts, by), func(part string) bool { return part == "" })
}

// fieldText is a field's value; "" where it is empty.
func fieldText(name string, value reflect.Value) string {
	switch v := value.Interface().(type) {
	case journal.Output:
		return fmt.Sprint(v.Size)
	case []string:
		return strings.Join(v, map[bool]string{true: " ", false: ","}[name == "launcher"])
	case []int64:
		return SomeIDs(v, 0)
	case map[string]int:
		return sorted(v, ",", func(name string, slots int) string { return fmt.Sprintf("%s:%d", name, slots) })
	case map[string][]string:
		return sorted(v, "; ", func(target string, words []string) string { return target + ": " + strings.Join(words, " ") })
	case bool:
		return map[bool]string{true: "yes"}[v]
	}
	if value.IsZero() {
		return ""
	}
	switch name {
	case "signo":
		return SignalName(int(value.Int()))
	case "run_at", "planned_at":
		return time.Unix(value.Int(), 0).UTC().Format(time.RFC3339)
	case "since":
		return time.UnixMicro(value.Int()).UTC().Format(time.RFC3339)
	case "timeout", "retry_after":
		return someSeconds(value.Int())
	case "elapsed", "grace":
		return (time.Duration(value.Int()) * time.Microsecond).String()
	}
	return fmt.Sprint(value.Interface())
}

// sorted are the entries of a map as texts, by their keys.
func sorted[V any](all map[string]V, between string, text func(string, V) string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, text(key, all[key]))
	}
	return strings.Join(parts, between)
}

// DescribeRow puts a row into words. Where tokens stand in the column sig, that is a signal once the job has ended.
func DescribeRow(row history.Row) string {
	if row.Owner == row.Signal {
		row.Owner = ""
	}
	return pairs("status", row.Status, "target", row.Target, "owner", row.Owner, "result", row.Result, "signal", row.Signal)
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
			if strings.ContainsAny(value, " \"=") { // it would not be one word
				value = `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`
			}
			parts = append(parts, fmt.Sprintf("%s=%s", namesAndValues[i], value))
		}
	}
	return strings.Join(parts, " ")
}

// someSeconds is a length of time; "" where there is none.
func someSeconds(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return (time.Duration(seconds) * time.Second).String()
}

// SignalName is the name of a signal, or its number where it has none.
func SignalName(signo int) string {
	if name := unix.SignalName(syscall.Signal(signo)); name != "" {
		return name
	}
	return strconv.Itoa(signo)
}
