package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jobnet "jobd/net"
	"jobd/net/api"
)

// expect asks the daemon what it is before it is asked for something: a master takes pause for all
// of its workers, and answers others' requests in forms of its own.
func (c *client) expect(ctx context.Context) error {
	_, err := c.ask(ctx, api.Status.Name, nil)
	var refused *jobnet.RemoteError
	if errors.As(err, &refused) && !isPassword(err) {
		return nil // it does not say; the request itself is answered, or refused
	}
	return err
}

// isWhat is an error where the answer to status is not that of the daemon that was meant.
func (c *client) isWhat(status json.RawMessage) error {
	var answer struct {
		Workers, Targets json.RawMessage
	}
	if json.Unmarshal(status, &answer) != nil {
		return nil // who reads it will say so
	}
	isMaster, isWorker := answer.Workers != nil, answer.Targets != nil
	switch {
	case c.master && isWorker && !isMaster:
		return fmt.Errorf("%s: this is a worker, not a master: leave --master away, or give the master's --host and --port", c.address)
	case !c.master && isMaster && !isWorker:
		return fmt.Errorf("%s: this is a master, not a worker: use --master, or give the worker's --host and --port", c.address)
	}
	return nil
}
