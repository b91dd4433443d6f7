package request

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/store/storetest/check"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

func refused(err error) *jobexec.NotStartedError {
	var refused *jobexec.NotStartedError
	errors.As(err, &refused)
	return refused
}

func TestAServiceThatIsAwayIsUnableUntilItIsBack(t *testing.T) {
	t.Parallel()
	port := must.Get(freeport.Take())(t)
	address := freeport.Address(port)
	f, spec := served(t, "http://"+address+"/run/{id}")
	unable := f.next(false)
	if unable.Target != "mail" || unable.Mode != jobexec.ModeHTTP || unable.Since == 0 ||
		!strings.HasPrefix(unable.Unready, "http://"+address+": ") || !strings.Contains(unable.Unready, "refused") {
		t.Errorf("its standing is %+v", unable)
	}
	for range 3 {
		if done, err := f.run(spec); refused(err) == nil || refused(err).Short || refused(err).Why != unable.Unready {
			t.Errorf("a job ended as %+v, %v", done, err)
		}
	}
	listener := must.Get(net.Listen("tcp", address))(t)
	rawOn(t, listener, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			fmt.Fprint(c, plain("200 OK", "", "out"))
		}
	})
	if able := f.next(true); able.Unready != "" || able.Since != 0 || f.services["mail"].wait != 0 {
		t.Errorf("its standing is %+v", able)
	}
	if done, err := f.run(spec); err != nil || done.Result != "ok" {
		t.Errorf("a job ended as %+v, %v", done, err)
	}
}

// A job that finds out tells it before it has ended, so that nothing more is claimed when it is given
// back.
func TestThatAServiceIsUnableIsToldBeforeTheJobEnds(t *testing.T) {
	t.Parallel()
	requests := make(chan struct{}, 1)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := rawOn(t, listener, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			requests <- struct{}{}
			fmt.Fprint(c, plain("200 OK", "Connection: close\r\n", "out"))
		}
	})
	f, spec := served(t, "http://"+address)
	f.probed()
	if _, err := f.run(spec); err != nil { // has the probe's connection
		t.Fatal(err)
	}
	<-requests
	listener.Close()
	done, err := f.run(spec)
	if refused(err) == nil {
		t.Fatalf("it ended as %+v, %v", done, err)
	}
	var last jobexec.PoolStanding
	for len(f.standings) > 0 {
		last = <-f.standings
	}
	check.Equal(t, last.Unready, refused(err).Why, "told was %+v, and the job had %v", last, err)
}

// What distributes requests takes connections, and closes them where nobody is behind it.
func TestAServiceThatClosesOrSpeaksAtOnceIsUnable(t *testing.T) {
	t.Parallel()
	for name, greeting := range map[string]string{"closes": "", "speaks": "220 mail.example ESMTP\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := raw(t, func(c net.Conn) {
				if greeting != "" {
					fmt.Fprint(c, greeting)
					_, _ = io.Copy(io.Discard, c)
				}
			})
			f, spec := served(t, url)
			for { // until one has met a connection that was closed by then
				if _, err := f.run(spec); refused(err) != nil {
					break
				}
			}
			s := f.next(false)
			check.Equal(t, s.Unready, url+": "+errSudden.Error(), "its standing is %+v", s)
		})
	}
}

func TestAConnectionThatIsClosedWhileTheStartIsJournalledIsNoStart(t *testing.T) {
	t.Parallel()
	url := raw(t, func(net.Conn) {})
	f := newFixture(t)
	s := f.newService("mail", jobexec.Service{Mode: jobexec.ModeHTTP, URL: url})
	s.close()
	c := must.Get(s.take(context.Background()))(t)
	for c.usable() {
		runtime.Gosched()
	}
	if renewed, err := s.renew(context.Background(), c); refused(err) == nil || renewed != nil {
		t.Errorf("it was renewed by %+v, %v", renewed, err)
	}
	if st := s.standing(); st.Busy != 0 || st.Unready == "" {
		t.Errorf("its standing is %+v", st)
	}
}

func TestServicesAreReplaced(t *testing.T) {
	t.Parallel()
	which := func(name string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	}
	f, spec := served(t, "http://127.0.0.1:1/")
	f.next(false)
	first := jobexec.Service{Mode: jobexec.ModeHTTP, URL: which("first")}
	f.SetServices(map[string]jobexec.Service{"mail": first})
	f.next(true)
	spec.Service = first
	same := f.services["mail"]
	f.SetServices(map[string]jobexec.Service{"mail": first, "more": {Mode: jobexec.ModeHTTP, URL: which("more")}})
	check.Equal(t, f.services["mail"], same, "a service that stays is another one")
	if done, err := f.run(spec); err != nil || string(done.Stdout.Kept) != "first" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	second := jobexec.Service{Mode: jobexec.ModeHTTP, URL: which("second")}
	f.SetServices(map[string]jobexec.Service{"mail": second})
	for _, of := range []jobexec.Service{first, second} { // a start may come before its service is known, or after
		spec.Service = of
		if done, err := f.run(spec); err != nil || done.Result != "ok" {
			t.Errorf("it ended as %+v, %v", done, err)
		}
	}
	f.SetServices(nil)
	check.Equal(t, len(f.services), 0, "there are still")
}

// A listener that forgets how a service stands hears it again: of a new service, and with each start
// that is refused.
func TestHowAServiceStandsIsToldAgain(t *testing.T) {
	t.Parallel()
	f, spec := served(t, "ftp://host/")
	first := f.next(false)
	services := map[string]jobexec.Service{"mail": spec.Service}
	f.SetServices(nil)
	f.SetServices(services)
	again := f.next(false)
	check.Equal(t, again.Unready, first.Unready, "of the same service was told %+v, and then %+v", first, again)
	f.SetServices(services)
	if _, err := f.run(spec); refused(err) == nil || refused(err).Why != f.next(false).Unready {
		t.Errorf("a job was refused: %v", err)
	}
}
