package request

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Regression: when a job's time is over was reckoned before its request waited for a connection, and
// its timeout from when it was sent.
func TestAServiceIsToldWhenTheRequestIsGivenUp(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Jobd-Deadline") })
	f, spec := served(t, url+"/run/{id}")
	spec.Vars = []string{"JOBD_DEADLINE=" + strconv.FormatInt(time.Now().Add(-time.Minute).Unix(), 10)}
	spec.Timeout = time.Hour
	sent := time.Now()
	if done, err := f.run(spec); err != nil || done.Result != "ok" {
		t.Fatalf("it ended as %+v, %v", done, err)
	}
	told := <-seen
	if at, err := strconv.ParseInt(told, 10, 64); err != nil || at < sent.Add(spec.Timeout).Unix() || at > time.Now().Add(spec.Timeout).Unix() {
		t.Errorf("it is told %q; sent at %d", told, sent.Unix())
	}
}
