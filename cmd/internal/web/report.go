package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"jobd/cmd/internal/pulse"
	"jobd/net/api"
)

// readiness is the answer of /healthz and of /readyz. No reasons: all is well.
type readiness struct {
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

	// Page answers all other paths but those of sign-in, to those who are known: SessionOf tells who asks. The
	// request's context ends with the session. A form was read before, and its POST comes from a page of this
	// server.
	Page http.Handler
}

// Loops says which of a daemon's loops stand still. What waiting can mend is none of it: a database
// that is away, a disk that is full.
func Loops(of *pulse.Pulse) func() []api.NotReady {
	return func() (why []api.NotReady) {
		for _, still := range of.Still() {
			why = append(why, api.NotReady{What: "loop " + still.Loop, Why: "its present step does not end", Since: still.Since})
		}
		return why
	}
}

// report answers with 200 where there is no reason, else with 503: in text, a line a reason, or as
// JSON for those who accept that or ask with ?format=json. Reasons name hosts and accounts: they are for those
// who may watch.
func (f *front) report(reasons func() []api.NotReady, word string) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		found := reasons()
		code, ok := http.StatusOK, len(found) == 0
		if !ok {
			code = http.StatusServiceUnavailable
		}
		if !ok && !f.mayWatch(request) {
			found = []api.NotReady{{What: "why", Why: "shown to clients of this host, or with the scope status and all targets"}}
		}
		w.Header().Set("Cache-Control", "no-store")
		if wantsJSON(request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(readiness{f.routes.Program, os.Getpid(), ok, found})
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
