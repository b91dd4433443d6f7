package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Worker is one worker that can be asked: by itself, or through the master that knows it.
type Worker struct {
	Name    string // "" where there is no master, and nothing to tell apart
	Address string // by which the master knows the worker; "" where there is none

	// Targets are those that it serves, as its master knows it; nil where nobody has told.
	Targets []string

	daemon *Daemon
	own    string // what one without a name calls itself; "": it has not told
}

// direct is the worker at the other end, where that is no master.
func (d *Daemon) direct() *Worker { return &Worker{daemon: d} }

// ownName is what the worker calls itself, asked for once; "" where it does not tell.
func (w *Worker) ownName(ctx context.Context) string {
	if w.Name == "" && w.own == "" {
		var status api.WorkerStatus
		_ = w.Ask(ctx, api.Status.Name, nil, &status)
		w.own = status.Name
	}
	return cmp.Or(w.Name, w.own)
}

// at is the worker that a master knows by this address.
func (d *Daemon) at(name, address string) *Worker {
	return &Worker{daemon: d, Name: name, Address: address}
}

// Workers are those that a daemon leads to: the worker itself, or those of a master. missed are those of a master
// that are down.
func (d *Daemon) Workers(ctx context.Context) (all []*Worker, missed, err error) {
	if !d.Master {
		return []*Worker{d.direct()}, nil, nil
	}
	var status api.FleetStatus[json.RawMessage]
	if err := d.AskInto(ctx, api.MasterStatus.Name, api.Polling{}, &status); err != nil {
		return nil, nil, err
	}
	return workersOf(d, status.Workers), down(status.Down), nil
}

// noteTargets notes which targets some workers of a master serve, as far as it tells.
func (d *Daemon) noteTargets(ctx context.Context, workers []*Worker) {
	all, _, err := d.Workers(ctx)
	if err != nil {
		return
	}
	at := map[string]*Worker{}
	for _, w := range all {
		at[w.Address] = w
	}
	for _, w := range workers {
		if known := at[w.Address]; known != nil {
			w.Targets = known.Targets
		}
	}
}

// serves tells whether it serves a target, for all that is known.
func (w *Worker) serves(target string) bool { return slices.Contains(w.Targets, target) }

// servingFirst is workers with those first that serve a target: they know its terms, and what its rows say of
// time. Others may not use the columns for that.
func servingFirst(target string, all []*Worker) []*Worker {
	serving := slices.DeleteFunc(slices.Clone(all), func(w *Worker) bool { return !w.serves(target) })
	return append(serving, slices.DeleteFunc(slices.Clone(all), func(w *Worker) bool { return w.serves(target) })...)
}

// workersOf are the workers of a master that it has told of. Both are sorted by their names.
func workersOf[S any](d *Daemon, told []api.FleetWorker[S]) []*Worker {
	slices.SortStableFunc(told, func(a, b api.FleetWorker[S]) int { return strings.Compare(a.Name, b.Name) })
	workers := make([]*Worker, len(told))
	for i, w := range told {
		address := net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort))
		workers[i] = &Worker{daemon: d, Name: w.Name, Address: address, Targets: append([]string{}, w.Targets...)}
	}
	return workers
}

// Ask sends the worker a request, through its master where there is one. A worker that has started
// again has another address there: its name still leads to it.
func (w *Worker) Ask(ctx context.Context, typ string, query, into any) error {
	if w.Address == "" {
		return older(typ, w.daemon.AskInto(ctx, typ, query, into))
	}
	var answer api.Relayed
	err := w.daemon.AskInto(ctx, typ, w.relayed(query), &answer)
	if jobnet.CodeOf(err) == jobnet.CodeNotFound && w.Name != "" && w.Name != w.Address {
		w.Address = w.Name
		err = w.daemon.AskInto(ctx, typ, w.relayed(query), &answer)
	}
	if err != nil {
		return older(typ, err)
	}
	if len(answer.Workers) != 1 {
		return fmt.Errorf("the master gave %d answers to %s", len(answer.Workers), typ)
	}
	return decode(typ, answer.Workers[0], into)
}

// relayed is the data of a request that the master hands on to this worker.
func (w *Worker) relayed(query any) map[string]any {
	data := map[string]any{}
	var members map[string]json.RawMessage // as they are: any would round numbers
	encoded, err := json.Marshal(query)
	if err == nil {
		err = json.Unmarshal(encoded, &members)
	}
	if err != nil {
		panic(err) // queries are plain structs
	}
	for name, value := range members {
		data[name] = value
	}
	data["worker"] = w.Address
	return data
}

// decode takes one worker's answer out of its master's.
func decode(typ string, relayed api.RelayedAnswer, into any) error {
	if relayed.Error != "" {
		return older(typ, said(relayed.Error, ""))
	}
	if err := json.Unmarshal(relayed.Data, into); err != nil {
		return fmt.Errorf("answer to %s is not understood: %w", typ, err)
	}
	return nil
}

// Named is an error with the worker's name, where there are several.
func (w *Worker) Named(err error) error { return Named(w.Name, err) }

// Named is an error with a worker's name; "" where there is nothing to tell apart.
func Named(worker string, err error) error {
	if worker == "" || err == nil {
		return err
	}
	return fmt.Errorf("worker '%s': %w", screen.Clean(worker), err)
}

// Answer is what one worker answered to a request that went to several.
type Answer[A any] struct {
	From  *Worker
	Value A
	Err   error // why there is no answer
}

// ErrNoWorkers says that a master has nobody to ask.
var ErrNoWorkers = errors.New("no worker is registered with the master")

// All asks the worker at the other end, or, with one request, all workers of the master there. Those
// that did not answer are among the answers, each with its error.
func All[A any](ctx context.Context, d *Daemon, typ string, query any) ([]Answer[A], error) {
	if !d.Master {
		one := Answer[A]{From: d.direct()}
		err := one.From.Ask(ctx, typ, query, &one.Value)
		return []Answer[A]{one}, err
	}
	var relayed api.Relayed
	if err := d.AskInto(ctx, typ, query, &relayed); err != nil {
		return nil, older(typ, err)
	}
	if len(relayed.Workers) == 0 {
		return nil, ErrNoWorkers
	}
	all := make([]Answer[A], len(relayed.Workers))
	for i, w := range relayed.Workers {
		all[i].From = d.at(w.Name, w.Address)
		all[i].Err = decode(typ, w, &all[i].Value)
	}
	return all, nil
}

// Silent gives the errors of the workers that did not answer, each with its name.
func Silent[A any](all []Answer[A]) error {
	var failed []error
	for _, one := range all {
		failed = append(failed, one.From.Named(one.Err))
	}
	return errors.Join(failed...)
}

// answered are the workers that did.
func answered[A any](all []Answer[A]) (workers []*Worker) {
	for _, one := range all {
		if one.Err == nil {
			workers = append(workers, one.From)
		}
	}
	return workers
}

// first asks workers one after the other until one answers: they share their table. A worker that
// refuses, or does not know the request, has done nothing, and the next one is asked. Where nobody
// knows what became of a request that changes something, nobody else is asked: by is that worker then.
func first[A any](ctx context.Context, workers []*Worker, typ string, query any, changes bool) (answer A, by *Worker, err error) {
	if len(workers) == 0 {
		return answer, nil, errors.New("no worker could be asked")
	}
	var failed []error
	for _, w := range workers {
		var answer A
		switch err := w.Ask(ctx, typ, query, &answer); {
		case err == nil:
			return answer, w, nil
		case changes && open(err, typ):
			return answer, w, w.Named(err)
		case !isSaid(err):
			return answer, nil, err // nor is there a way to the others
		default:
			failed = append(failed, w.Named(err))
		}
	}
	return answer, nil, errors.Join(failed...)
}

// open tells whether nobody knows what became of a request: no answer came of it, or none to the
// master, from its worker.
func open(err error, typ string) bool {
	var said *jobnet.RemoteError
	return LeftOpen(err, typ) || errors.As(err, &said) && (said.Text == "connection lost" || strings.HasPrefix(said.Text, "no answer within"))
}

// share asks for something about targets, or about all that the workers serve: each target of one of
// those that serve it, which knows its terms, with as few requests as it takes. Where a worker can't
// tell, others are asked in its place. The errors are of those in whose place nobody could.
func share(workers []*Worker, targets []string, ask func(w *Worker, targets []string) error) (errs []error) {
	left := map[string]bool{}
	for _, w := range workers {
		if w.Address == "" { // it is the only one
			return some(ask(w, targets))
		}
		for _, target := range w.Targets {
			if len(targets) == 0 || slices.Contains(targets, target) {
				left[target] = true
			}
		}
	}
	for asked := map[*Worker]bool{}; len(left) > 0; {
		var next *Worker
		var mine []string
		for _, w := range workers {
			has := slices.DeleteFunc(slices.Clone(w.Targets), func(target string) bool { return !left[target] })
			if !asked[w] && len(has) > len(mine) {
				next, mine = w, has
			}
		}
		if next == nil { // nobody is left who could be asked
			return errs
		}
		asked[next] = true
		if err := ask(next, slices.Sorted(slices.Values(mine))); err != nil {
			errs = append(errs, next.Named(err))
			continue
		}
		for _, target := range mine {
			delete(left, target)
		}
	}
	return nil // others have told what these could not
}

// some is an error as a list; none of nil.
func some(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}
