package services

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

// receivers are the servers that check who is asking, each by the code of the page.
func receivers(t *testing.T) map[string]*server {
	t.Helper()
	php := port(t)
	s := map[string]*server{
		"python": serve(t, []string{"SIGNED=" + signed(t, "signed.py")}, "python3", "testdata/receiver.py"),
		"ruby":   serve(t, []string{"SIGNED=" + signed(t, "signed.rb")}, "ruby", "testdata/receiver.rb"),
		"js":     serve(t, []string{"SIGNED=" + signed(t, "signed.cjs")}, "node", "testdata/receiver.cjs"),
		"php":    {port: php, lines: make(chan string, 10_000)},
	}
	s["php"].start(t, []string{"SIGNED=" + signed(t, "signed.php")}, "php", "-S", freeport.Address(php), "testdata/receiver.php")
	return s
}

func TestReceiversOfThePageKnowWhoIsAsking(t *testing.T) {
	t.Parallel()
	for language, server := range receivers(t) {
		t.Run(language, func(t *testing.T) {
			a := newAsker(t)
			service := a.reach(server.url("/jobs%2F{id}?id={id}&a=%C3%A4"))
			if got, want := shown(a.run(service)), `ok 0 out "job 1 of mail" err ""`; got != want {
				t.Errorf("a job ended as %s, not %s", got, want)
			}
			service.Secret = "another"
			if got, want := shown(a.run(service)), ` for good`; !strings.Contains(got, "401") || !strings.HasSuffix(got, want) {
				t.Errorf("with another secret it ended as %s", got)
			}
			for change, want := range changes {
				if got := server.ask(t, change); got != want {
					t.Errorf("%s: it answers %d, not %d", change, got, want)
				}
			}
		})
	}
}

// changes are what somebody makes of a request that was overheard, and what a receiver says.
var changes = map[string]int{
	"nothing": 200, "without a deadline": 200, "a target of other letters": 200,
	"an old time": 401, "a time to come": 401, "no signature": 401, "nonsense": 401, "half a signature": 401,
	"another path": 401, "another query": 401, "another host": 401, "another method": 401,
	"Jobd-Id": 401, "Jobd-Attempt": 401, "Jobd-Claim": 401, "Jobd-Target": 401, "Jobd-Deadline": 401,
	"a deadline more": 401,
}

// ask sends a request that is signed as the page says, and changed then, and gives the answer's status.
func (s *server) ask(t *testing.T, change string) int {
	t.Helper()
	at, method, host, path := time.Now().Unix(), "POST", freeport.Address(s.port), "/jobs/1?x=y"
	names := []string{"Jobd-Id", "Jobd-Attempt", "Jobd-Claim", "Jobd-Target", "Jobd-Deadline"}
	told := map[string]string{
		"Jobd-Id": "1", "Jobd-Attempt": "2", "Jobd-Claim": "1-2-@abcdefghi", "Jobd-Target": "mail", "Jobd-Deadline": "1795377600",
	}
	switch change {
	case "without a deadline", "a deadline more":
		delete(told, "Jobd-Deadline")
	case "a target of other letters":
		told["Jobd-Target"] = "gr%C3%BC%C3%9Fe"
	case "an old time":
		at -= 330
	case "a time to come":
		at += 330
	}
	lines := []string{fmt.Sprint(at), method, host, path}
	for _, name := range names {
		lines = append(lines, told[name])
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join(lines, "\n")))
	told["Jobd-Signature"] = fmt.Sprintf("t=%d,v1=%x", at, mac.Sum(nil))
	switch change {
	case "no signature":
		delete(told, "Jobd-Signature")
	case "nonsense":
		told["Jobd-Signature"] = "t=,v1="
	case "half a signature":
		told["Jobd-Signature"] = told["Jobd-Signature"][:40]
	case "another path":
		path = "/jobs/2?x=y"
	case "another query":
		path = "/jobs/1?x=z"
	case "another host":
		host = "app.example"
	case "another method":
		method = "PUT"
	case "a deadline more":
		told["Jobd-Deadline"] = "1795377600"
	default:
		if value, is := told[change]; is {
			told[change] = value + "1"
		}
	}
	c := must.Get(net.Dial("tcp", freeport.Address(s.port)))(t)
	defer c.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n", method, path, host)
	for name, value := range told {
		head += name + ": " + value + "\r\n"
	}
	must.Get(fmt.Fprint(c, head+"\r\n"))(t)
	response := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	defer response.Body.Close()
	return response.StatusCode
}
