package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"
)

func (p *program) restart() *ffcli.Command {
	return command("restart", "restart", "worker: start again, with the binary that is installed by now; what runs goes on", func(ctx context.Context, args []string) error {
		if err := p.onlyWorker("restart"); err != nil {
			return err
		}
		if len(args) != 0 {
			return wrongUsage("restart: takes no arguments, got %q", args)
		}
		return p.tell(ctx, "restart", nil)
	})
}
