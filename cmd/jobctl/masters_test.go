package main

import (
	"context"
	"net"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// silent listens, as a process does that is stopped, and answers nobody.
func silent(t *testing.T) (addr string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// Of several masters the first that answers is asked, and a poke goes to all.
func TestSeveralMasters(t *testing.T) {
	t.Parallel()
	answers := map[string]any{api.Status.Name: map[string]any{"workers": []any{}}, api.Poke.Name: api.Done{Result: "ok"}}
	one, two := startDaemon(t, "", answers), startDaemon(t, "", answers)
	hanging, closed := silent(t), "127.0.0.1:1"
	port := func(d *daemon) string { return "127.0.0.1:" + d.port }

	got := jobctl{}.run(t, "--master", "--host", strings.Join([]string{closed, hanging, port(one), port(two)}, ", "), "poke", "mail")
	if got.code != 0 || got.out != "ok\n" {
		t.Errorf("poke: %+v", got)
	}
	for _, d := range []*daemon{one, two} {
		if asked := strings.Join(d.asked(), "\n"); !strings.Contains(asked, `poke {"detail":true,"targets":["mail"]}`) {
			t.Errorf("a master was asked %q; want a poke", asked)
		}
	}
	before := len(two.asked())
	got = jobctl{}.run(t, "--master", "--host", strings.Join([]string{closed, hanging, port(one), port(two)}, ","), "list-workers")
	if got.code != 0 || len(two.asked()) != before {
		t.Errorf("list-workers: %+v; the second that answers was asked %q", got, two.asked()[before:])
	}
	got = jobctl{}.run(t, "--master", "--host", closed+","+hanging, "poke", "mail")
	if got.code == 0 || !strings.Contains(got.err, closed) || !strings.Contains(got.err, hanging) {
		t.Errorf("poke where none answers: %+v", got)
	}
	got = jobctl{}.run(t, "--host", "a,b", "list-targets")
	if got.code != 2 || !strings.Contains(got.err, "several are masters") {
		t.Errorf("several workers: %+v", got)
	}
}

// What a master has been asked, and did not answer, no other one is asked.
func TestAChangeIsAskedOfOneMasterOnly(t *testing.T) {
	t.Parallel()
	status := map[string]any{"workers": []any{}}
	other := startDaemon(t, "", map[string]any{api.Status.Name: status, api.MasterPause.Name: api.Done{Result: "ok"}})
	lost := listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		api.Status.Name: answering(status), api.MasterPause.Name: hangingUp,
	}})
	got := jobctl{}.run(t, "--master", "--host", "127.0.0.1:"+lost+",127.0.0.1:"+other.port, "pause", "mail")
	if got.code == 0 || !strings.Contains(got.err, "may have been carried out") {
		t.Errorf("pause of which nobody knows: %+v", got)
	}
	for _, asked := range other.asked() {
		if strings.HasPrefix(asked, api.MasterPause.Name) {
			t.Errorf("the other master was asked, too: %s", asked)
		}
	}
}

func answering(answer any) jobnet.Handler {
	return func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return answer, nil }
}

// hangingUp is a daemon that is killed while it is asked.
func hangingUp(_ context.Context, link *jobnet.Link, _ jobnet.Request) (any, error) {
	return nil, link.Close()
}
