package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jobnet "jobd/net"
	"jobd/net/api"
)

// told is what one worker answered to a request that went to all of them.
type told[A any] struct {
	from   *remote // to ask this worker for more
	answer A
	err    error // why there is no answer
}

// askFleet asks the worker at the other end, or all workers of the master there.
func askFleet[A any](ctx context.Context, c *client, typ string, data any) ([]told[A], error) {
	if !c.master {
		one := told[A]{from: &remote{client: c}}
		err := cannotTell(c.askInto(ctx, typ, data, &one.answer))
		return []told[A]{one}, err
	}
	var relayed api.Relayed
	if err := c.askInto(ctx, typ, data, &relayed); err != nil {
		return nil, cannotTell(err)
	}
	if len(relayed.Workers) == 0 {
		return nil, errors.New("no worker is registered with the master")
	}
	all := make([]told[A], len(relayed.Workers))
	for i, w := range relayed.Workers {
		all[i].from = &remote{client: c, name: w.Name, address: w.Address}
		if w.Error != "" {
			all[i].err = cannotTell(&jobnet.RemoteError{Text: clean(w.Error)})
		} else if err := json.Unmarshal(w.Data, &all[i].answer); err != nil {
			all[i].err = fmt.Errorf("answer to %s is not understood: %w", typ, err)
		}
	}
	return all, nil
}

// cannotTell explains the error of a peer that does not know what it was asked; nil stays nil.
func cannotTell(err error) error {
	if err != nil && jobnet.CodeOf(err) == jobnet.CodeUnknown {
		return fmt.Errorf("it can't tell, because it is an older jobd, or the original: %w", err)
	}
	return err
}

// silent gives the errors of the workers that did not answer, each with its name.
func silent[A any](all []told[A]) error {
	var failed []error
	for _, one := range all {
		if one.err != nil {
			failed = append(failed, fmt.Errorf("worker '%s': %w", clean(one.from.name), one.err))
		}
	}
	return errors.Join(failed...)
}
