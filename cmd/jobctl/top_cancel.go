package main

import (
	"context"
	"encoding/json"

	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/contract"
)

// cancelName is the request that cancels jobs.
const cancelName = "cancel"

// cancel cancels a running job, on the worker that runs it.
func (s *topSource) cancel(ctx context.Context, c *client, job live.Job) (string, error) {
	r := &remote{client: c, name: job.Worker, address: job.Address}
	var answer json.RawMessage
	err := askOne(ctx, r, cancelName, contract.Ids{IDs: []jobnet.Whole{job.Job}}, &answer)
	return "asked to end", mayBeDone(err, cancelName)
}
