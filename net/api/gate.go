package api

import (
	"cmp"
	"context"
	"strings"

	jobnet "jobd/net"
	"jobd/net/principal"
)

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
