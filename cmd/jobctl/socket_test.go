package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// says is a daemon that answers poll and poke with the same words.
func says(words string) jobnet.ServerConfig {
	answer := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return words, nil }
	return jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{"poll": answer, "poke": answer}}
}

// onSocket serves on a socket until the test ends.
func onSocket(t *testing.T, path string, config jobnet.ServerConfig) {
	t.Helper()
	listener := must.Get(net.Listen("unix", path))(t)
	serveOn(t, listener, config)
}

// A socket is where jobctl goes if a flag, a variable or the file says so, and nothing closer names a
// host or port; the sockets of this host's daemons are where it goes if nothing says where to go.
func TestWhichSocket(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	own := filepath.Join(folder, "own.sock")
	onSocket(t, own, says("own"))
	onSocket(t, filepath.Join(folder, "jobd.sock"), says("worker"))
	onSocket(t, filepath.Join(folder, "jobd-master.sock"), says("master"))
	port := listen(t, says("tcp"))
	inFile, _ := profilesFile(t, "log_level = error\nsocket = "+own+"\n[sock]\nsocket = "+own+"\nhost = 192.0.2.1\npassword = x\n[tcp]\nport = "+port+"\n")
	byVariable := append([]string{"JOBCTL_PORT=" + port}, inFile...)
	elsewhere := append([]string{"JOBCTL_SOCKET=/no/socket"}, inFile...)
	for name, test := range map[string]struct {
		environ []string
		args    string
		want    output
	}{
		"nothing said":               {nil, "poll", output{out: "worker\n"}},
		"a master":                   {nil, "--master poke a", output{out: "master\n"}},
		"a port":                     {nil, "poll --port " + port, output{out: "tcp\n"}},
		"a master's port":            {nil, "--master --master-port " + port + " poke a", output{out: "tcp\n"}},
		"a master's, of a worker":    {nil, "poll --master-port 1", output{out: "worker\n"}},
		"a flag":                     {nil, "poll --socket " + own, output{out: "own\n"}},
		"the file":                   {inFile, "poll", output{out: "own\n"}},
		"a flag before the file":     {inFile, "poll --port " + port, output{out: "tcp\n"}},
		"a profile":                  {inFile, "@sock poll", output{out: "own\n"}},
		"a profile without one":      {inFile, "@tcp poll", output{out: "tcp\n"}},
		"a variable":                 {elsewhere, "poll", output{code: 3, err: "jobctl: no connection to /no/socket: no such file or directory\n"}},
		"a variable before the file": {byVariable, "poll", output{out: "tcp\n"}},
		"a flag before a variable":   {elsewhere, "poll --port " + port, output{out: "tcp\n"}},
		"both": {nil, "poll --socket " + own + " --port " + port, output{
			code: 2, err: "jobctl: flag --socket: socket: with --host or --port there is no telling which is meant; give one of them\n",
		}},
		"a relative one": {nil, "poll --socket own.sock", output{
			code: 2, err: `jobctl: flag --socket: socket: "own.sock" is not allowed; allowed is the absolute path of a unix socket, of at most 107 bytes` + "\n",
		}},
	} {
		if got := (jobctl{environ: test.environ, sockets: folder}).run(t, strings.Fields(test.args)...); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// The password of a profile goes to no socket that the command line names.
func TestAProfilesPasswordGoesToNoOtherSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	config := says("ok")
	config.Password = "the profile's password"
	onSocket(t, path, config)
	environ, _ := profilesFile(t, "[prod]\nhost = 192.0.2.1\npassword = the profile's password\n")
	got := jobctl{environ: environ}.run(t, "@prod", "poll", "--socket", path)
	if got.code == 0 || !strings.Contains(got.err, "the password of @prod is not sent") {
		t.Errorf("%+v", got)
	}
}

// A socket that is tried because nothing says where to go belongs to root, as systemd's do, or to who calls:
// jobs of jobd's account may make one in the same folder.
func TestASocketOfAnotherAccountIsNotTriedByItself(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("another account needs root")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "jobd.sock")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.Do(t, os.Chown(path, 54321, 54321))
	if got := (jobctl{sockets: folder}).run(t, "poll"); strings.Contains(got.err, path) {
		t.Errorf("it was tried: %+v", got)
	}
	must.Do(t, os.Chown(path, 0, 0))
	if got := (jobctl{sockets: folder}).run(t, "poll"); !strings.Contains(got.err, path) {
		t.Errorf("root's was not tried: %+v", got)
	}
}
