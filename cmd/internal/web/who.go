package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// Who is what the front needs to know who asks.
type Who struct {
	Server     *jobnet.Server // judges secrets, as it does for links
	Principals bool           // there is a file of them
	Password   bool           // there is one
	TLS        *tls.Config    // nil: there is none
	RequireTLS bool
	KeyDir     string // a folder of this account alone, for the key of cookies; "": it is in memory
}

// open tells whether nobody could be told from anybody.
func (w Who) open() bool { return !w.Principals && !w.Password }

// sessionKey is where a request's context has its session.
type sessionKey struct{}

// SessionOf is who asks for a page; never nil there.
func SessionOf(ctx context.Context) *principal.Session {
	session, _ := ctx.Value(sessionKey{}).(*principal.Session)
	return session
}

// asker is who sends a request.
type asker struct {
	session *principal.Session // nil: nobody
	until   time.Time          // its cookie is good; zero: there is none
	bearer  bool               // it has shown a token or the password with this request
}

// errClosed is why nobody gets a page.
var errClosed = errors.New("pages are for this host alone, since other clients could not be told apart: set principals_file or password, or connect over a loopback address or a unix socket (http_listen)")

// ask tells who sends a request, once for each. The error says why that can't be told.
func (f *front) ask(r *http.Request) (who asker, err error) {
	conn := connOf(r)
	peer := f.told(r, conn.peer())
	if f.who.open() && !peer.Local {
		return who, errClosed
	}
	if secret, is := bearer(r); is {
		who.bearer = true
		who.session, err = f.judge(r, secret)
		return who, err
	}
	if digest, until, is := f.cookies.read(r, peer.TLS); is {
		if who.session = f.who.Server.Recall(digest, peer.Address); who.session != nil {
			who.until = until
			return who, nil
		}
	}
	who.session = f.who.Server.Known(peer)
	return who, nil
}

// judge tells who gives a token or the password. While it waits for its turn, its connection has no answer under
// way: guesses hold no place that others need.
func (f *front) judge(r *http.Request, secret string) (*principal.Session, error) {
	conn := connOf(r)
	defer conn.waits()()
	return f.who.Server.Judge(r.Context(), conn.Conn, secret)
}

// bearer is the secret that a request shows. Other schemes are of proxies before us. Two values are as a wrong one.
func bearer(r *http.Request) (secret string, is bool) {
	const scheme = "bearer "
	for _, value := range r.Header.Values("Authorization") {
		if len(value) > len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
			if is {
				return "", true
			}
			secret, is = strings.TrimSpace(value[len(scheme):]), true
		}
	}
	return secret, is
}

// told is what is known of a request's peer. Who passes requests on is not who asks: of a proxy that is believed
// the header counts, and of any other nothing.
func (f *front) told(r *http.Request, peer jobnet.Peer) jobnet.Peer {
	isProxy := slices.ContainsFunc(f.at.Proxies, func(known string) bool {
		name, isCert := strings.CutPrefix(known, "cert:")
		return known == "uid:"+strconv.Itoa(peer.UID) || isCert && slices.Contains(peer.Names, name)
	})
	if !f.at.ClientCert || isProxy || isPassedOn(r.Header) {
		peer.Names = nil
	}
	if isProxy || isPassedOn(r.Header) {
		peer.UID, peer.Local = -1, false
	}
	if users := r.Header.Values(f.at.UserHeader); isProxy && len(users) == 1 {
		peer.User = users[0]
	}
	return peer
}

// isPassedOn tells whether a request says that somebody has passed it on.
func isPassedOn(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "X-Forwarded") || slices.Contains([]string{"Forwarded", "X-Real-Ip", "Via"}, name) {
			return true
		}
	}
	return false
}

// mayWatch tells whether who asks may read numbers and reasons: they are about all targets. Without principals
// everybody may, and so does who comes from this host.
func (f *front) mayWatch(r *http.Request) bool {
	if !f.who.Principals || f.told(r, connOf(r).peer()).Local {
		return true
	}
	who, err := f.ask(r)
	return err == nil && who.session != nil && who.session.Scope.Has(principal.Status) && who.session.All()
}
