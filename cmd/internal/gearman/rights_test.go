package gearman

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/net/gearman"
	"jobd/net/principal"
	"jobd/store/storetest/must"
)

func TestWhatClosesAConnection(t *testing.T) {
	t.Parallel()
	_, address := start(t, nil)
	for name, raw := range map[string]string{
		"a browser":          "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nshutdown\r\n",
		"another method":     "BREW /\n",
		"TLS":                "\x16\x03\x01\x02\x00\x01\ncreate function f\n",
		"an unknown magic":   "\x00XXX\x00\x00\x00\x10\x00\x00\x00\x00",
		"an unknown type":    "\x00REQ\x00\x00\x00\x63\x00\x00\x00\x00",
		"a line without end": strings.Repeat("x", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := connect(t, address)
			_, _ = io.WriteString(p.conn, raw)
			if rest, _ := io.ReadAll(p.r); len(rest) > 0 {
				t.Errorf("it was answered %q", rest)
			}
		})
	}
	p := connect(t, address)
	p.send(gearman.SubmitJobSched, "f", "u", "1", "2", "3", "4", "5", "w")
	p.want(gearman.Error, "INVALID_COMMAND")
	p.send(gearman.AllYours)
	p.want(gearman.Error, "INVALID_COMMAND")
	must.Get(io.WriteString(p.conn, "\x00RES\x00\x00\x00\x09\x00\x00\x00\x00"))(t)
	p.want(gearman.Error, "INVALID_MAGIC")
	p.send(gearman.CanDo, "f\n")
	p.want(gearman.Error, "INVALID_FUNCTION_NAME")
	p.synced()
}

// What somebody may, its scope and targets say.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scope, targets, refused string }{
		{"submit", "f", "can_do get_status cancel create status"},
		{"status", "*", "submit can_do cancel create"},
		{"worker", "f", "submit get_status cancel create status"},
		{"run", "*", "can_do create"},
		{"admin", "f", "can_do"},
		{"admin", "g", "submit can_do create"},
	} {
		t.Run(c.scope+" "+c.targets, func(t *testing.T) {
			t.Parallel()
			w, address := start(t, func(_ *Config, p *Parts) {
				scope := must.Get(principal.ParseScope(c.scope))(t)
				targets := must.Get(principal.ParseTargets(c.targets))(t)
				p.Known = func(peer jobnet.Peer) *principal.Session {
					return &principal.Session{Name: "ann", Address: peer.Address, Scope: scope, Targets: targets}
				}
			})
			w.held = true
			p := connect(t, address)
			var refused []string
			ask := func(what string, do func() (ok bool)) {
				if !do() {
					refused = append(refused, what)
				}
			}
			answer := func(kind gearman.Kind, args ...string) func() bool {
				return func() bool {
					p.send(kind, args...)
					head := must.Get(p.r.Peek(12))(t)
					body := int(binary.BigEndian.Uint32(head[8:]))
					must.Get(p.r.Discard(12 + body))(t)
					return gearman.Kind(binary.BigEndian.Uint32(head[4:])) != gearman.Error
				}
			}
			says := func(command string) func() bool {
				return func() bool {
					must.Get(io.WriteString(p.conn, command))(t)
					line := must.Get(p.r.ReadString('\n'))(t)
					for rest := line; rest != ".\n" && !strings.HasPrefix(line, "OK") && !strings.HasPrefix(line, "ERR"); {
						rest = must.Get(p.r.ReadString('\n'))(t)
					}
					return !strings.Contains(line, "ann may not ask")
				}
			}
			ask("submit", answer(gearman.SubmitJobBg, "f", "", ""))
			ask("can_do", func() bool {
				p.send(gearman.CanDo, "f")
				p.send(gearman.EchoReq, "")
				ok := answer(gearman.EchoReq, "")()
				if !ok {
					must.Get(p.r.Discard(12))(t)
				}
				must.Get(p.r.Discard(12))(t)
				return ok
			})
			ask("get_status", answer(gearman.GetStatus, "H:node:1"))
			ask("cancel", says("cancel job H:node:7\n"))
			ask("create", says("create function f\n"))
			ask("status", says("status\n"))
			if got := strings.Join(refused, " "); got != c.refused {
				t.Errorf("refused: %s; not: %s", got, c.refused)
			}
		})
	}
}

// Without a credential, who comes from this host commands nothing where there are credentials, and who comes from
// elsewhere does not get in.
func TestWhoMayConnect(t *testing.T) {
	t.Parallel()
	_, address := start(t, func(_ *Config, p *Parts) { p.Known = func(jobnet.Peer) *principal.Session { return nil } })
	p := connect(t, address)
	p.says("status\n", ".\n")
	p.send(gearman.SubmitJobBg, "f", "", "")
	p.want(gearman.JobCreated)
	must.Get(io.WriteString(p.conn, "create function f\n"))(t)
	if line := must.Get(p.r.ReadString('\n'))(t); !strings.Contains(line, "needs the scope admin") {
		t.Errorf("create function: %q", line)
	}
}
