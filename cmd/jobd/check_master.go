package main

import (
	"context"
	"errors"
	"strings"

	"jobd/cmd/internal/check"
	jobnet "jobd/net"
)

// checkMaster looks whether a master answers and takes the worker's password. It does not register.
func (c *config) checkMaster(ctx context.Context, address string) []check.Finding {
	f := check.Finding{What: "master " + address, Detail: "answers, and takes the password"}
	if c.Listen.Password == "" {
		f.Detail = "answers without a password"
	}
	switch err := c.askMaster(ctx, address); {
	case err == nil:
	case errors.Is(err, errPassword):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it refuses this worker's password", "give the same in the key password of both"
	case errors.Is(err, errNoMaster):
		f.Level, f.Detail, f.Remedy = check.Wrong, "it is no master that listens there", "mend master_host and master_port: a master has port 7081 unless it is told otherwise"
	default:
		f.Level, f.Detail, f.Remedy = check.Wrong, "it can't be reached: "+err.Error(), "start it, or mend master_host and master_port; the worker runs without it, and is not poked"
	}
	return []check.Finding{f}
}

// What a peer that answers may be wrong with.
var (
	errPassword = errors.New("invalid password")
	errNoMaster = errors.New("no master")
)

func (c *config) askMaster(ctx context.Context, address string) error {
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{Password: c.Listen.Password})
	if err != nil {
		return err
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	data, err := link.Request(ctx, "status", nil) // has no effect
	var answer *jobnet.RemoteError
	switch {
	case errors.As(err, &answer) && strings.Contains(answer.Text, errPassword.Error()):
		return errPassword
	case errors.As(err, &answer), err == nil && !jobnet.FieldsOf(data).Has("workers"):
		return errNoMaster
	}
	return err
}
