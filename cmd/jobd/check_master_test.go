package main

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	jobdaemon "jobd/cmd/internal/daemon"
	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// What listens at a master's address is asked what it is: a worker answers as readily as a master
// does.
func TestCheckKnowsAMasterFromAWorker(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"workers":[],"memoryUsage":{}}`: "answers, and takes the password",
		`{"targets":{},"memoryUsage":{}}`: "it is no master that listens there",
	} {
		server := jobnet.NewServer(jobnet.ServerConfig{Password: "s3cret", Handlers: map[string]jobnet.Handler{
			"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return json.RawMessage(answer), nil },
		}})
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- server.Serve(ctx, listener) }()
		address := netip.MustParseAddrPort(listener.Addr().String()).String()
		for password, want := range map[string]string{"s3cret": want, "other": "it refuses this worker's password"} {
			c := config{Settings: jobdaemon.Settings{Listen: conf.Listen{Password: password}}}
			got := c.checkMaster(t.Context(), address)
			if len(got) != 1 || !strings.Contains(got[0].Detail, want) || (got[0].Level == check.Wrong) != strings.HasPrefix(want, "it ") {
				t.Errorf("%s with password %s: %+v", answer, password, got)
			}
		}
		cancel()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-served
	}
}
