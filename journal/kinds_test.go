package journal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// each gives an empty payload of every kind that is registered.
func each(t *testing.T) map[Kind]Payload {
	t.Helper()
	payloads := make(map[Kind]Payload)
	for _, kind := range Kinds() {
		payload, err := DecodePayload(kind, []byte(`{}`), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, twice := payloads[kind]; twice || payload.Kind() != kind {
			t.Errorf("%s is registered for a %T, or twice", kind, payload)
		}
		payloads[kind] = payload
	}
	return payloads
}

// The registry knows every payload that there is.
func TestEveryPayloadIsRegistered(t *testing.T) {
	t.Parallel()
	payloads := each(t)
	file := must.Get(parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0))(t)
	var constants, methods int
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			if decl.Tok == token.CONST {
				constants += len(decl.Specs)
			}
		case *ast.FuncDecl:
			if decl.Recv != nil && decl.Name.Name == "Kind" {
				methods++
			}
		}
	}
	if len(payloads) != constants || len(payloads) != methods {
		t.Errorf("%d kinds are registered, of %d constants and %d payloads", len(payloads), constants, methods)
	}
}

// Every kind means something: to the state, or to a job of some status, and never to both.
func TestEveryKindMeansSomething(t *testing.T) {
	t.Parallel()
	statuses := []Status{StatusNone, StatusAccepted, StatusStarting, StatusRunning, StatusDone, StatusReleased, StatusIgnored, StatusConflict}
	for kind, payload := range each(t) {
		ofWorker := (&State{}).Apply(Event{Seq: 1, Payload: payload}) == nil
		ofJob := slices.ContainsFunc(statuses, func(s Status) bool { return s.allows(kind) })
		if ofWorker == ofJob {
			t.Errorf("%s is of the worker: %t, of a job: %t", kind, ofWorker, ofJob)
		}
	}
}

// An event that names its claim is about that claim: whatever has a token says so, save the event
// that makes the claim.
func TestEveryTokenCounts(t *testing.T) {
	t.Parallel()
	for kind, payload := range each(t) {
		value := reflect.New(reflect.TypeOf(payload)).Elem()
		field := value.FieldByName("Token")
		if !field.IsValid() || kind == KindAccepted {
			continue
		}
		field.SetString("@token")
		if named := value.Interface().(Payload); tokenOf(named) != "@token" {
			t.Errorf("the token of %s counts for nothing", kind)
		}
	}
}

// The documentation has a row for every kind.
func TestEveryKindIsDocumented(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../docs/journal.md"))(t)
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, name := range strings.Split(cells[1], ",") {
				documented[strings.Trim(name, " `")] = true
			}
		}
	}
	for _, kind := range Kinds() {
		if !documented[string(kind)] {
			t.Errorf("docs/journal.md has no row of %s", kind)
		}
	}
}
