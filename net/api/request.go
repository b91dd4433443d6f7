package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// How a request is declared: its kind, which says who may ask it, and how its data is read.

// Gate is the one place where it is decided what somebody may ask; of which targets they are
// told is decided behind it. Handlers of requests that are not declared here have no way in. refused hears of what was refused and would have changed
// something, or is for workers only.
func Gate(handlers map[string]jobnet.Handler, refused func(request jobnet.Request, err error)) map[string]jobnet.Handler {
	for name, handler := range handlers {
		kind, declared := Kinds[name]
		if !declared {
			panic("request " + name + " is not declared")
		}
		handlers[name] = func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
			if err := kind.Lets(request.From); err != nil {
				if kind.Changes || kind.scope == principal.Worker {
					refused(request, err)
				}
				return nil, err
			}
			return handler(ctx, link, request)
		}
	}
	return handlers
}

// Lets gives why somebody may not ask a request; nil: it may.
func (k Kind) Lets(from *principal.Session) error {
	switch {
	case !from.Scope.Has(k.scope):
		needs := strings.ReplaceAll(k.scope.String(), "+", " or ")
		return forbidden("%s may not ask for %s: that needs the scope %s, and it has %s", from.Who(), k.Name, needs, cmp.Or(from.Scope.String(), "none"))
	case k.whole && !from.All():
		return forbidden("%s may not ask for %s: that concerns all targets, and it has %s", from.Who(), k.Name, from.Targets)
	}
	return nil
}

func forbidden(format string, args ...any) error {
	return jobnet.Refusef(format, args...).With(jobnet.CodeForbidden)
}

// has refuses what names a target that somebody has not. A worker may poke any: it has set back rows of targets
// that others serve.
func has(from *principal.Session, kind Kind, targets ...string) error {
	if from.All() || from.Scope == principal.Worker && kind.Name == Poke.Name {
		return nil
	}
	for _, target := range targets {
		if !from.Targets.Reach(target) {
			return forbidden("%s may %s %s, not %s", from.Who(), doing(kind.scope), from.Targets, jobnet.Excerpt(target))
		}
	}
	return nil
}

// HasTarget refuses a target that a request about a journal names, and who asks has not; "": it names none.
func HasTarget(request jobnet.Request, target string) error {
	if target == "" {
		return nil
	}
	return has(request.From, Kinds[request.Type], target)
}

// doing says what a right is to do with targets.
func doing(right principal.Scope) string {
	switch right {
	case principal.Status, principal.Read:
		return "look at"
	case principal.Worker:
		return "serve"
	case principal.Admin:
		return "command"
	}
	return "run jobs of"
}

// Kind is what there is to know of a request beside its data and its answer.
type Kind struct {
	Name      string          // its type on the wire
	scope     principal.Scope // who has one of these rights may ask it
	whole     bool            // it is about the whole process: who has not all targets may not ask it
	Changes   bool            // it changes something, so that a refusal is part of the history
	Slow      bool            // its answer waits for jobs or for other hosts: the requests behind it need not wait
	Relayed   bool            // a master hands it on to all its workers, or to the one that the field worker names
	OneWorker bool            // a master hands it on to the worker that the field worker names, which must be there
}

// Kinds are those of all requests, by name.
var Kinds = make(map[string]Kind)

// Request is one request of the protocol: Q is its data, A the data of its answer.
type Request[Q, A any] struct {
	Kind

	read func(r *reader) Q
}

func declare[Q, A any](kind Kind, read func(r *reader) Q) Request[Q, A] {
	if kind.scope == 0 {
		panic("request " + kind.Name + " has no scope")
	}
	Kinds[kind.Name] = kind
	return Request[Q, A]{kind, read}
}

// Read reads the request's data as somebody sent it, who must have the targets that it names. Its error is a
// net.Refusal.
func (r Request[Q, A]) Read(from *principal.Session, data jobnet.Fields) (Q, error) {
	reader := &reader{Reader: jobnet.Reader{Fields: data}}
	query := r.read(reader)
	if reader.Err != nil {
		return query, invalid(reader.Err)
	}
	return query, has(from, r.Kind, reader.named...)
}

// invalid gives a refusal of a request's data its code, unless it has one.
func invalid(err error) error {
	var refusal jobnet.Refusal
	if jobnet.CodeOf(err) == jobnet.CodeRefused && errors.As(err, &refusal) {
		return refusal.With(jobnet.CodeInvalid)
	}
	return err
}

// None is the data of requests that have none: it ignores what comes.
type None struct{}

func readNone(*reader) None { return None{} }

// reader reads the fields of a request's data.
type reader struct {
	jobnet.Reader
	named []string // targets that were read
}

func (r *reader) refuse(format string, args ...any) { r.Fail(jobnet.Refusef(format, args...)) }

// limit refuses what has more than so many, or so long, parts: a request's cost grows with each.
func (r *reader) limit(size, most int, text string) {
	if size > most {
		r.Fail(jobnet.Refusef(text, most).With(jobnet.CodeLimit))
	}
}

// textOr is a string, or what stands where there is none.
func (r *reader) textOr(name, otherwise string) string {
	if !r.Has(name) {
		return otherwise
	}
	return r.Text(name)
}

// numberOr is an integer, or what stands where there is none.
func (r *reader) numberOr(name string, otherwise int64) int64 {
	if !r.Has(name) {
		return otherwise
	}
	return r.Int(name)
}

// within is an integer between two, or what stands where there is none.
func (r *reader) within(name string, least, most, otherwise int64) int64 {
	number := r.numberOr(name, otherwise)
	if r.Has(name) && (number < least || number > most) {
		r.refuse("%s: %d is not allowed; allowed: %d to %d", name, number, least, most)
	}
	return number
}

// most is how many items are wanted at most: up to a limit, which stands where nothing was said.
func (r *reader) most(limit int64) int { return int(r.within("most", 1, limit, limit)) }

// each gives the items of a required list to a function, of which it takes most, until one is wrong.
func (r *reader) each(name string, most int, use func(item json.RawMessage)) {
	count := 0
	r.Each(name, func(item json.RawMessage) {
		count++
		if r.limit(count, most, "too many "+name+": at most %d are allowed"); r.Err == nil {
			use(item)
		}
	})
}

// objects gives the items of a required list, which are objects.
func (r *reader) objects(name string, most int, use func(item *reader)) {
	r.each(name, most, func(item json.RawMessage) {
		fields := &reader{Reader: jobnet.Reader{Fields: jobnet.FieldsOf(item)}}
		use(fields)
		r.named = append(r.named, fields.named...)
		r.Fail(fields.Err)
	})
}

// targets are the items of a required list of targets, each so long at most. Refusals, in this order:
// "targets must be array", "all targets must be strings, number given", "targets are empty".
func (r *reader) targets(longest int) (targets []string) {
	r.each("targets", MostTargets, func(item json.RawMessage) {
		if kind := jobnet.TypeOf(item); kind != "string" {
			r.refuse("all targets must be strings, %s given", kind)
			return
		}
		target := jobnet.Text(item)
		r.limit(len(target), longest, "a target is too long: at most %d bytes are allowed")
		targets = append(targets, target)
	})
	if len(targets) == 0 {
		r.refuse("targets are empty")
	}
	r.named = append(r.named, targets...)
	return targets
}

// target is the required target.
func (r *reader) target() string {
	target := r.Text("target")
	r.named = append(r.named, target)
	return target
}

// anyTargets are targets where none stands for all.
func (r *reader) anyTargets(longest int) []string {
	if !r.Has("targets") {
		return nil
	}
	return r.targets(longest)
}

// ids are the items of the required list ids.
func (r *reader) ids(most int) (ids []jobnet.Whole) {
	r.each("ids", most, func(item json.RawMessage) { ids = append(ids, r.id(item)) })
	return ids
}

// someIDs are ids, of which there must be one.
func (r *reader) someIDs(most int) []jobnet.Whole {
	ids := r.ids(most)
	if len(ids) == 0 {
		r.refuse("ids are empty")
	}
	return ids
}

// id is an id, as net.Whole has them. A number in quotes is none.
func (r *reader) id(item json.RawMessage) jobnet.Whole {
	id, err := jobnet.ParseWhole(item)
	switch kind := jobnet.TypeOf(item); {
	case err != nil && kind != "number":
		r.refuse("all ids must be numbers, got %s", kind)
	case err != nil:
		r.refuse("all ids must be integers: %v", err)
	case id == 0:
		r.refuse("no job has the id 0")
	}
	return id
}

// byID reads an object whose names are ids; nil where the field is not there.
func byID[V any](r *reader, name string, most int, read func(id jobnet.Whole, value json.RawMessage) V) map[jobnet.Whole]V {
	if !r.Has(name) {
		return nil
	}
	members := jobnet.FieldsOf(r.Fields[name])
	if members == nil {
		r.refuse("%s must be an object whose names are ids", name)
	}
	r.limit(len(members), most, "too many "+name+": at most %d are allowed")
	all := make(map[jobnet.Whole]V, min(len(members), most))
	for text, value := range members {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id == 0 {
			r.refuse("%s: %q is not the id of a job", name, jobnet.Excerpt(text))
		}
		if r.Err != nil {
			return nil
		}
		all[jobnet.Whole(id)] = read(jobnet.Whole(id), value)
	}
	return all
}

// textsByID reads an object of texts whose names are ids.
func (r *reader) textsByID(name string, most int) map[jobnet.Whole]string {
	return byID(r, name, most, func(id jobnet.Whole, value json.RawMessage) (text string) {
		if json.Unmarshal(value, &text) != nil {
			r.refuse("%s: job %d: %s is no text", name, id, jobnet.Excerpt(string(value)))
		}
		return text
	})
}
