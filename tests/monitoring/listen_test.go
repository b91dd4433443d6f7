package monitoring

import (
	"net"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Where the address is somebody else's, nothing is started: a worker that nobody can watch is not
// what was asked for.
func TestAnAddressThatIsInUse(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	in := harness.Settings{"http_listen": listener.Addr().String()}
	worker := harness.NewDatabase(t).Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(in)
	master := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}.With(in)
	for program, settings := range map[string]harness.Settings{"jobd": worker, "jobd-master": master} {
		d := harness.Launch(t, program, settings.Write(t), settings.Addr())
		if code := d.ExitCode(t); code != 1 || !strings.Contains(d.Output(), "listen for HTTP (key http_listen)") || !strings.Contains(d.Output(), "address already in use") {
			t.Errorf("%s: exit code %d: %s", program, code, d.Output())
		}
	}
}
