package journal

import (
	"encoding/json"
	"errors"
	"reflect"
)

// Kind names what an event records. The words are the ones stored in the
// journal and printed by jobctl; they never change their meaning.
type Kind string

// The kinds of event. The first group is about a job, the second about the
// worker itself (job id 0); the last two stand in a master's journal only.
const (
	KindAccepted  Kind = "accepted"
	KindIgnored   Kind = "ignored"
	KindReleased  Kind = "released"
	KindRunning   Kind = "running"
	KindStarted   Kind = "started"
	KindSignal    Kind = "signal"
	KindDone      Kind = "done"
	KindConflict  Kind = "conflict"
	KindSetAside  Kind = "set-aside"
	KindRequeued  Kind = "requeued"
	KindCancelled Kind = "cancelled"
	KindRetried   Kind = "retried"
	KindPlanned   Kind = "planned"
	KindReplanned Kind = "replanned"

	KindOpened         Kind = "opened"
	KindClosed         Kind = "closed"
	KindPaused         Kind = "paused"
	KindContinued      Kind = "continued"
	KindTargetAdded    Kind = "target-added"
	KindTargetRemoved  Kind = "target-removed"
	KindConcurrencySet Kind = "concurrency-set"
	KindMarked         Kind = "marked"
	KindServer         Kind = "server"
	KindRunner         Kind = "runner"
	KindRequested      Kind = "requested"
	KindRefused        Kind = "refused"
	KindReloaded       Kind = "reloaded"
	KindReapplied      Kind = "reapplied"
	KindRetention      Kind = "retention"
	KindRegistered     Kind = "registered"
	KindLeft           Kind = "left"
)

func (Accepted) Kind() Kind       { return KindAccepted }
func (Ignored) Kind() Kind        { return KindIgnored }
func (Released) Kind() Kind       { return KindReleased }
func (Running) Kind() Kind        { return KindRunning }
func (Started) Kind() Kind        { return KindStarted }
func (Signal) Kind() Kind         { return KindSignal }
func (Done) Kind() Kind           { return KindDone }
func (Conflict) Kind() Kind       { return KindConflict }
func (SetAside) Kind() Kind       { return KindSetAside }
func (Requeued) Kind() Kind       { return KindRequeued }
func (Cancelled) Kind() Kind      { return KindCancelled }
func (Retried) Kind() Kind        { return KindRetried }
func (Planned) Kind() Kind        { return KindPlanned }
func (Replanned) Kind() Kind      { return KindReplanned }
func (Opened) Kind() Kind         { return KindOpened }
func (Closed) Kind() Kind         { return KindClosed }
func (Paused) Kind() Kind         { return KindPaused }
func (Continued) Kind() Kind      { return KindContinued }
func (TargetAdded) Kind() Kind    { return KindTargetAdded }
func (TargetRemoved) Kind() Kind  { return KindTargetRemoved }
func (ConcurrencySet) Kind() Kind { return KindConcurrencySet }
func (Marked) Kind() Kind         { return KindMarked }
func (Server) Kind() Kind         { return KindServer }
func (Runner) Kind() Kind         { return KindRunner }
func (Requested) Kind() Kind      { return KindRequested }
func (Refused) Kind() Kind        { return KindRefused }
func (Reloaded) Kind() Kind       { return KindReloaded }
func (Reapplied) Kind() Kind      { return KindReapplied }
func (Retention) Kind() Kind      { return KindRetention }
func (Registered) Kind() Kind     { return KindRegistered }
func (Left) Kind() Kind           { return KindLeft }

// registry lists a payload of every kind, in the order in which they are documented. Code that needs
// all kinds asks here. For what an event does, see applyWorker (state.go) for the worker's events, and
// transition.go for those of jobs.
var registry = []Payload{
	Accepted{},
	Ignored{},
	Released{},
	Running{},
	Started{},
	Signal{},
	Done{},
	Conflict{},
	SetAside{},
	Requeued{},
	Cancelled{},
	Retried{},
	Planned{},
	Replanned{},

	Opened{},
	Closed{},
	Paused{},
	Continued{},
	TargetAdded{},
	TargetRemoved{},
	ConcurrencySet{},
	Marked{},
	Server{},
	Runner{},
	Requested{},
	Refused{},
	Reloaded{},
	Reapplied{},
	Retention{},
	Registered{},
	Left{},
}

var payloadTypes = func() map[Kind]reflect.Type {
	types := make(map[Kind]reflect.Type, len(registry))
	for _, payload := range registry {
		types[payload.Kind()] = reflect.TypeOf(payload)
	}
	return types
}()

// Kinds lists the kinds of event in the order in which they are documented.
func Kinds() []Kind {
	kinds := make([]Kind, len(registry))
	for i, payload := range registry {
		kinds[i] = payload.Kind()
	}
	return kinds
}

// DecodePayload reads the JSON form of a payload. A Done's output stands beside that form, and is
// passed beside it.
func DecodePayload(kind Kind, data, stdout, stderr []byte) (Payload, error) {
	of := payloadTypes[kind]
	if of == nil {
		return nil, errors.New("unknown kind, as of a newer version of jobd")
	}
	value := reflect.New(of)
	if err := json.Unmarshal(data, value.Interface()); err != nil {
		return nil, err
	}
	payload := value.Elem().Interface().(Payload)
	if done, ok := payload.(Done); ok {
		done.Stdout.Kept, done.Stderr.Kept = stdout, stderr
		payload = done
	}
	return payload, nil
}
