package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	jobnet "jobd/net"
)

// mostForm is how long the form of a POST may be.
const mostForm = 64 << 10

// front stands before all answers.
//
//	request ──► TLS where it is required ──► /metrics, /healthz, /readyz
//	                                    └──► Host ──► who asks ──► sign-in and out
//	                                                          └──► POST: from here? ──► the page
type front struct {
	routes  Routes
	at      conf.HTTP
	who     Who
	cookies *cookies
	cross   *http.CrossOriginProtection
	own     *http.ServeMux // what needs no page
	log     *slog.Logger
}

func newFront(at conf.HTTP, routes Routes, who Who, log *slog.Logger) *front {
	f := &front{
		routes: routes, at: at, who: who, cookies: newCookies(who.KeyDir, log), cross: http.NewCrossOriginProtection(),
		log: jobnet.Bounded(log, 20, time.Second), // of what others make it say
	}
	f.own = http.NewServeMux()
	f.own.HandleFunc("GET /metrics", f.metrics)
	f.own.HandleFunc("GET /healthz", f.report(routes.Health, "healthy"))
	f.own.HandleFunc("GET /readyz", f.report(routes.Ready, "ready"))
	return f
}

// metrics answers those who may read all numbers.
func (f *front) metrics(w http.ResponseWriter, r *http.Request) {
	if !f.mayWatch(r) {
		refuse(w, http.StatusUnauthorized, "metrics are for clients of this host, or with the scope status and all targets: send Authorization: Bearer TOKEN")
		return
	}
	f.routes.Metrics.ServeHTTP(w, r)
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := connOf(r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch peer := conn.peer(); {
	case f.who.RequireTLS && !peer.TLS && peer.UID < 0:
		w.Header().Set("Connection", "close")
		http.Error(w, "TLS is required here: ask by https://", http.StatusBadRequest)
	case slices.Contains([]string{"/metrics", "/healthz", "/readyz"}, r.URL.Path):
		f.own.ServeHTTP(w, r)
	case peer.UID < 0 && !f.isOwn(r.Host): // a unix socket is out of a browser's reach
		http.Error(w, "the Host header does not name this host: use this host's name or address, or add the name to http_hosts", http.StatusMisdirectedRequest)
	default:
		f.page(w, r)
	}
}

// isOwn tells whether a host names this one. A request for another may be of a page in a browser here, whose
// server has led its own name to this address. Metrics and health need no such name: those who watch daemons
// ask by names of their own.
func (f *front) isOwn(host string) bool {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	own, err := os.Hostname()
	names := append([]string{"localhost"}, f.at.Hosts...)
	if err == nil {
		names = append(names, own)
	}
	return net.ParseIP(strings.Trim(host, "[]")) != nil ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) })
}

// policy is what a page may load and do.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// page answers what is for known people only, and what makes them known.
func (f *front) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	if err := whole(w, r); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.URL.Path == "/sign-in.css" {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style)
		return
	}
	who, err := f.ask(r)
	switch {
	case errors.Is(err, errClosed):
		refuse(w, http.StatusNotFound, err.Error())
		return
	case err != nil:
		refuse(w, http.StatusTooManyRequests, err.Error())
		return
	case who.bearer && who.session == nil:
		f.log.Warn("wrong password over HTTP", "peer", connOf(r).peer().Address)
	}
	if why := f.foreign(r, who); why != "" {
		refuse(w, http.StatusForbidden, why)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /sign-in":
		f.form(w, r, http.StatusOK, r.FormValue("next"), "", who.session)
	case "POST /sign-in":
		f.signIn(w, r)
	case "POST /sign-out":
		f.cookies.clear(w, r, connOf(r).peer().TLS)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		f.serve(w, r, who)
	}
}

// serve has the page answer somebody.
func (f *front) serve(w http.ResponseWriter, r *http.Request, who asker) {
	switch get := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case !get && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		refuse(w, http.StatusMethodNotAllowed, "allowed: GET, HEAD and POST")
		return
	case who.session == nil && get && !who.bearer && strings.Contains(r.Header.Get("Accept"), "text/html"):
		w.Header().Set("WWW-Authenticate", "Bearer")
		f.form(w, r, http.StatusUnauthorized, r.URL.RequestURI(), "", nil)
		return
	case who.session == nil:
		refuse(w, http.StatusUnauthorized, "the request has no valid credential: send Authorization: Bearer, with a token or the password")
		return
	case !get && f.at.ReadOnly:
		refuse(w, http.StatusForbidden, "nothing is changed here (http_read_only): use jobctl")
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), sessionKey{}, who.session))
	defer cancel()
	defer who.session.OnEnd(cancel)()
	if !who.until.IsZero() {
		defer time.AfterFunc(time.Until(who.until), cancel).Stop()
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout))
	f.routes.Page.ServeHTTP(w, r.WithContext(ctx))
}

// foreign is why a request is not answered that comes from elsewhere; "": it may be. A browser says which page it comes from; what
// says nothing of it shows a secret that no browser adds by itself.
func (f *front) foreign(r *http.Request, who asker) string {
	site, mode, dest := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	switch {
	case (site == "cross-site" || site == "same-site") && (mode != "" && mode != "navigate" || dest != "" && dest != "document"):
		return "the request comes from a page of another server, which may only link here"
	case f.cross.Check(r) != nil:
		return "the request comes from a page of another server: nothing was done"
	case r.Method == http.MethodPost && r.Header.Get("Origin") == "" && site == "" && (!who.bearer || who.session == nil):
		return "a POST with neither Origin nor Sec-Fetch-Site needs Authorization: Bearer, with a token or the password"
	}
	return ""
}

// whole reads all of a request: its time is not that of the answer. Its connection has no answer under way
// until it is all there: whoever sends it slowly, or never, holds no place that others need.
func whole(w http.ResponseWriter, r *http.Request) error {
	defer connOf(r).waits()()
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("the form is not understood: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // one that passes would end the request's context
	return nil
}

// refuse says why a request is not answered.
func refuse(w http.ResponseWriter, code int, why string) {
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, why, code)
}
