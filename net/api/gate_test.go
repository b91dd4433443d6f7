package api

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobnet "jobd/net"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

var update = flag.Bool("update", false, "write the table of scopes")

// The table of scopes in docs/protocol.md is what the requests are declared with.
func TestThePageHasTheScopes(t *testing.T) {
	t.Parallel()
	const page = "../../docs/protocol.md"
	text := must.Get(os.ReadFile(page))(t)
	of := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(Kinds)) {
		kind, mark := Kinds[name], ""
		if kind.whole {
			mark = "*"
		}
		for _, scope := range scopes {
			if set, _ := principal.ParseScope(scope); set.Has(kind.scope) {
				of[scope] = append(of[scope], "`"+name+"`"+mark)
			}
		}
	}
	table := "| scope | |\n|---|---|\n"
	for _, scope := range scopes {
		line := strings.Join(of[scope], ", ")
		switch scope {
		case "run":
			line = "what `read` and `submit` may, and " + less(of[scope], of["read"], of["submit"])
		case "admin":
			line = "what `run` may, and " + less(of[scope], of["run"])
		case "read":
			line = "what `status` may, and " + less(of[scope], of["status"])
		}
		table += fmt.Sprintf("| `%s` | %s |\n", scope, line)
	}
	between := regexp.MustCompile(`(?s)(<!-- scopes: [^\n]* -->\n).*(<!-- end of scopes -->)`)
	want := between.ReplaceAllString(string(text), "${1}"+table+"${2}")
	switch {
	case !between.Match(text):
		t.Error("there is no room for the table")
	case want != string(text) && *update:
		must.Do(t, os.WriteFile(page, []byte(want), 0o644))
	case want != string(text):
		t.Errorf("%s: the table of scopes is another one; go test ./net/api -update writes it:\n%s", page, table)
	}
}

var scopes = []string{"status", "read", "submit", "run", "admin", "worker"}

// less are the names that are in none of some other lists.
func less(names []string, others ...[]string) string {
	all := slices.Concat(others...)
	return strings.Join(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(all, name) }), ", ")
}

// A request that is not declared has no way in, and one that is declared has a scope.
func TestNoWayInWithoutADeclaration(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(){
		"not declared": func() {
			Gate(map[string]jobnet.Handler{"nobody-knows-it": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return nil, nil }}, nil)
		},
		"without a scope": func() { declare[None, Done](Kind{Name: "no-scope"}, readNone) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it is taken", name)
				}
			}()
			register()
		}()
	}
}

// anybody may do everything.
var anybody = principal.Known("", "", "127.0.0.1:1")

// The data of cancel is read as it is written, with what is not said filled in; anything else is
// refused, with what is allowed.
func TestReadCancel(t *testing.T) {
	t.Parallel()
	grace := func(ms int64) *int64 { return &ms }
	many := strings.Repeat("1,", MostCancelled) + "1"
	var targets []string
	for id := range MostCancelled + 1 {
		targets = append(targets, fmt.Sprintf(`"%d":"a"`, id+1))
	}
	for sent, want := range map[string]struct {
		query   CancelQuery
		refusal string
	}{
		`{"ids":[5,-6]}`: {query: CancelQuery{IDs: []jobnet.Whole{5, -6}, Grace: grace(DefaultGrace)}},
		`{"ids":[5],"grace":0,"rows":true,"targets":{"5":"a"}}`: {
			query: CancelQuery{IDs: []jobnet.Whole{5}, Grace: grace(0), Rows: true, Targets: map[jobnet.Whole]string{5: "a"}},
		},
		`{}`:                             {refusal: "ids must be array"},
		`{"ids":["x"]}`:                  {refusal: "all ids must be numbers, got string"},
		`{"ids":[` + many + `]}`:         {refusal: "too many ids: at most 10000 are allowed"},
		`{"ids":[5],"grace":-1}`:         {refusal: "grace: -1 is not allowed; allowed: 0 to 86400000"},
		`{"ids":[5],"grace":86400001}`:   {refusal: "grace: 86400001 is not allowed; allowed: 0 to 86400000"},
		`{"ids":[5],"grace":"soon"}`:     {refusal: "'grace' must be integer"},
		`{"ids":[5],"targets":{"5":6}}`:  {refusal: `targets: job 5: 6 is no text`},
		`{"ids":[5],"targets":{"x":""}}`: {refusal: `targets: "x" is not the id of a job`},
		`{"ids":[5],"targets":{` + strings.Join(targets, ",") + `}}`: {refusal: "too many targets: at most 10000 are allowed"},
	} {
		got, err := Cancel.Read(anybody, jobnet.FieldsOf(json.RawMessage(sent)))
		if want.refusal != "" {
			if err == nil || err.Error() != want.refusal || jobnet.CodeOf(err) == jobnet.CodeRefused {
				t.Errorf("%.60s: %v (code %s), want %s", sent, err, jobnet.CodeOf(err), want.refusal)
			}
			continue
		}
		if diff := cmp.Diff(want.query, got); err != nil || diff != "" {
			t.Errorf("%.60s: %v (-want +got):\n%s", sent, err, diff)
		}
	}
}

func TestWhatMayBeExplained(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return `{"ids":[` + strings.TrimSuffix(strings.Repeat("7,", n), ",") + `]}` }
	for data, want := range map[string]string{
		`{"ids":[5]}`: "",
		`{"ids":[5,-6],"output":true,"probe":true}`: "", // of an older client
		many(MostExplained):                         "",
		many(MostExplained + 1):                     fmt.Sprintf("too many ids: at most %d are allowed", MostExplained),
		`{"ids":[]}`:                                "ids are empty",
		`{}`:                                        "ids must be array",
		`{"ids":["x"]}`:                             "all ids must be numbers, got string",
		`{"ids":[0]}`:                               "no job has the id 0",
	} {
		q, err := Explain.Read(anybody, jobnet.FieldsOf([]byte(data)))
		if want == "" && err == nil && len(q.IDs) > 0 && q.Output == strings.Contains(data, "output") {
			continue
		}
		if want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %+v, %v; want %s", data, q, err, want)
		}
	}
	if !Kinds[Explain.Name].Relayed {
		t.Error("a master would not hand it on")
	}
}

func TestTheDataOfOutput(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]OutputQuery{
		`{"job": 5}`: {Job: 5, Most: MostOutput},
		`{"job": -5, "attempt": 2, "stdout": 10, "stderr": -20, "most": 1}`: {Job: -5, Attempt: 2, Stdout: 10, Stderr: -20, Most: 1},
	} {
		check.Equal(t, must.Get(Output.Read(anybody, jobnet.FieldsOf(json.RawMessage(data))))(t), want, "%s", data)
	}
	for data, want := range map[string]string{
		`{}`:                         "'job' is missing: the id of a job",
		`{"job": 0}`:                 "no job has the id 0",
		`{"job": "x"}`:               "all ids must be numbers, got string",
		`{"job": 5, "most": 0}`:      "most: 0 is not allowed; allowed: 1 to 65536",
		`{"job": 5, "most": 65537}`:  "most: 65537 is not allowed; allowed: 1 to 65536",
		`{"job": 5, "attempt": -1}`:  "attempt: -1 is not allowed; allowed: 0 to 1000000000",
		`{"job": 5, "stdout": true}`: "'stdout' must be integer",
	} {
		_, err := Output.Read(anybody, jobnet.FieldsOf(json.RawMessage(data)))
		if err == nil || jobnet.CodeOf(err) != jobnet.CodeInvalid {
			t.Errorf("%s: %v", data, err)
		} else if err.Error() != want {
			t.Errorf("%s: %q, want %q", data, err, want)
		}
	}
}

func TestTheDataOfRunning(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"sort": "size"}`: `sort "size" is not allowed; allowed: age, cpu and memory`,
		`{"most": 10001}`:  "most: 10001 is not allowed; allowed: 1 to 10000",
		`{"targets": []}`:  "targets are empty",
	} {
		if _, err := Running.Read(anybody, jobnet.FieldsOf(json.RawMessage(data))); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
	q, err := Running.Read(anybody, nil)
	if err != nil || q.Sort != SortAge || q.Most != MostRunning || q.Targets != nil {
		t.Errorf("without data: %+v, %v", q, err)
	}
}

// Every whole number of 64 bits but 0 is an id: as a number where it is exact, else as a string of
// digits.
func TestIDsThatClientsSend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sent string
		id   int64
		want string // the refusal
	}{
		{`1`, 1, ""},
		{`5.0`, 5, ""},
		{`-5`, -5, ""},
		{`9007199254740991`, 1<<53 - 1, ""},
		{`"9007199254740992"`, 1 << 53, ""},
		{`"9223372036854775807"`, 1<<63 - 1, ""},
		{`"-9223372036854775808"`, -1 << 63, ""},
		{`0`, 0, "no job has the id 0"},
		{`-0.0`, 0, "no job has the id 0"},
		{`"900111"`, 0, "all ids must be numbers, got string"},
		{`"9223372036854775808"`, 0, "all ids must be numbers, got string"},
		{`"09007199254740993"`, 0, "all ids must be numbers, got string"},
		{`null`, 0, "all ids must be numbers, got object"},
		{`true`, 0, "all ids must be numbers, got boolean"},
		{`1.5`, 0, "all ids must be integers: 1.5 is not a 64-bit integer; write numbers beyond ±9007199254740991 as decimal strings"},
		{`9007199254740993`, 0, "all ids must be integers: 9007199254740993 is not a 64-bit integer; write numbers beyond ±9007199254740991 as decimal strings"},
	}
	for _, test := range tests {
		var r reader
		id := r.id(json.RawMessage(test.sent))
		err := r.Err
		if err == nil && test.want == "" && int64(id) == test.id {
			continue
		}
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %d, %v; want %d, %s", test.sent, id, err, test.id, test.want)
		}
	}
}
