package web

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"jobd/cmd/internal/pulse"
	"jobd/net/api"
)

// Report is the answer of /healthz and of /readyz. No reasons: all is well.
type Report struct {
	Program string         `json:"program"`
	PID     int            `json:"pid"`
	OK      bool           `json:"ok"`
	Reasons []api.NotReady `json:"reasons,omitempty"`
}

// Routes are what a daemon tells.
type Routes struct {
	Program string
	Metrics http.Handler
	Health  func() []api.NotReady // why the process is not well: it should be started anew
	Ready   func() []api.NotReady // why it may not take work at the moment
}

// Handler answers what is asked.
func (r Routes) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", r.Metrics)
	mux.HandleFunc("GET /healthz", r.report(r.Health, "healthy"))
	mux.HandleFunc("GET /readyz", r.report(r.Ready, "ready"))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s\n\n/metrics  numbers for Prometheus\n/healthz  whether the process is well\n/readyz   whether it may take work\n", r.Program)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch path := request.URL.Path; {
		case path == "/metrics", path == "/healthz", path == "/readyz", isOwn(request):
			mux.ServeHTTP(w, request)
		default:
			http.Error(w, "the Host of the request does not name this host: ask by its name or address", http.StatusMisdirectedRequest)
		}
	})
}

// isOwn tells whether a request names this host. One that does not may be of a page in a browser here,
// whose server has led its own name to this address. Metrics and health need no such name: those who
// watch daemons ask by names of their own, and a unix socket is out of a browser's reach.
func isOwn(request *http.Request) bool {
	if at, is := request.Context().Value(http.LocalAddrContextKey).(net.Addr); is && at.Network() == "unix" {
		return true
	}
	host := request.Host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	own, err := os.Hostname()
	return net.ParseIP(strings.Trim(host, "[]")) != nil || strings.EqualFold(host, "localhost") ||
		err == nil && strings.EqualFold(host, own)
}

// Loops says which of a daemon's loops stand still. What waiting can mend is none of it: a database
// that is away, a disk that is full.
func Loops(of *pulse.Pulse) func() []api.NotReady {
	return func() (why []api.NotReady) {
		for _, still := range of.Still() {
			why = append(why, api.NotReady{What: "loop " + still.Loop, Why: "it does not come to the end of a piece of work", Since: still.Since})
		}
		return why
	}
}

// report answers with 200 where there is no reason, else with 503: in text, a line a reason, or as
// JSON for those who accept that or ask with ?format=json.
func (r Routes) report(reasons func() []api.NotReady, word string) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		found := reasons()
		code := http.StatusOK
		if len(found) > 0 {
			code = http.StatusServiceUnavailable
		}
		w.Header().Set("Cache-Control", "no-store")
		if wantsJSON(request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(Report{r.Program, os.Getpid(), len(found) == 0, found})
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		fmt.Fprint(w, inWords(word, found))
	}
}

func wantsJSON(r *http.Request) bool {
	return r.FormValue("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json")
}

// inWords is a report as text.
func inWords(word string, reasons []api.NotReady) string {
	if len(reasons) == 0 {
		return word + "\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "not %s\n", word)
	for _, reason := range reasons {
		since := ""
		if !reason.Since.IsZero() {
			since = " since " + reason.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&text, "%s%s: %s\n", reason.What, since, strings.Join(strings.Fields(reason.Why), " "))
	}
	return text.String()
}
