package clients

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A daemon that is not there, hangs, or does not know the password.
func TestClientsTellWhatIsWrong(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ int, l language) {
		told := l.call(daemon("127.0.0.1:1", true, ""), "poke", "mail")
		if !told.failed(l, "unreachable") || !strings.Contains(told.text, "jobd-master at 127.0.0.1:1 can't be reached: ") ||
			!strings.Contains(strings.ToLower(told.text), "refused") {
			t.Errorf("%s: nobody listens: %v", l.name, told)
		}
	})
	// One each: wrong passwords that come from one address are answered ever later.
	masters := map[string]*harness.Daemon{}
	for _, l := range languages(t) {
		masters[l.name] = harness.StartMaster(t, harness.Settings{"password": password})
	}
	everywhere(t, func(t *testing.T, _ int, l language) {
		d := masters[l.name]
		if told := l.call(daemon(d.Addr, true, "another"), "status"); !told.failed(l, "invalid-password") || !strings.Contains(told.text, "refuses status: invalid password") {
			t.Errorf("%s: wrong password: %v", l.name, told)
		}
		if told := l.call(daemon(d.Addr, true, password), "poke", "nobody's"); told.code != "" {
			t.Errorf("%s: poke of a target that nobody serves: %v", l.name, told)
		}
		if told := l.call(daemon(d.Addr, true, password), "run", "7:nobody's"); told.jobs()[7] != "error worker serving target 'nobody's' not found" {
			t.Errorf("%s: run for a target that nobody serves: %v", l.name, told)
		}
		if told := l.call(daemon(d.Addr, false, password), "poke", "a"); !told.failed(l, "unknown-request") {
			t.Errorf("%s: a master that is taken for a worker: %v", l.name, told)
		}
	})
}

func TestClientsAndAMasterThatHangs(t *testing.T) {
	t.Parallel()
	master := harness.StartMaster(t)
	master.Signal(t, syscall.SIGSTOP)
	everywhere(t, func(t *testing.T, _ int, l language) {
		told := l.call(daemon(master.Addr, true, "").with(settings{"JOBCTL_TIMEOUT": "3"}), "status")
		if !told.failed(l, "timeout") {
			t.Errorf("%s: %v", l.name, told)
		}
	})
	master.Signal(t, syscall.SIGCONT)
	everywhere(t, func(t *testing.T, _ int, l language) {
		if told := l.call(daemon(master.Addr, true, ""), "status"); told.code != "" {
			t.Errorf("%s: it goes on: %v", l.name, told)
		}
	})
}

// What passes comes in single bytes at first, and in odd pieces later.
func TestClientsReadFramesInPieces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	through := inPieces(t, s.master.Addr)
	everywhere(t, func(t *testing.T, n int, l language) {
		words, large := int64(100+n), int64(200+n)
		check.Do(t, s.insert(words, "words"))
		check.Do(t, s.insert(large, "big"))
		told := l.call(daemon(through, true, password), "run", fmt.Sprintf("%d:words", words), fmt.Sprintf("%d:big", large))
		got, want := told.jobs(), "ok 0 null Grüße \t\"an\" \\ 😀\n|to stderr\n"
		if got[words] != want || len(got[large]) != len("ok 0 null |")+big {
			t.Errorf("%s: %q and %d bytes, want %q and %d: %v", l.name, got[words], len(got[large]), want, len("ok 0 null |")+big, told)
		}
	})
}

// inPieces hands on what it gets to a daemon and back, in pieces.
func inPieces(t *testing.T, addr string) (through string) {
	t.Helper()
	return proxy(t, addr, func(to io.Writer, from io.Reader) {
		sizes := slices.Concat(slices.Repeat([]int{1}, 400), []int{2, 3, 1000, 1, 65537, 4095})
		buffer := make([]byte, 1<<17)
		for i := 0; ; i++ {
			if i == len(sizes) {
				i = 400
			}
			n, err := from.Read(buffer[:sizes[i]])
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

func proxy(t *testing.T, addr string, hand func(to io.Writer, from io.Reader)) (through string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				continue
			}
			_ = near.(*net.TCPConn).SetNoDelay(true)
			_ = far.(*net.TCPConn).SetNoDelay(true)
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					defer near.Close()
					defer far.Close()
					hand(way[0], way[1])
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// normal is JSON in one form, whichever order its members have and however it is written.
func normal(message string) string {
	var value any
	if err := json.Unmarshal([]byte(message), &value); err != nil {
		return message
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// The clients for PHP and Node.js verify a daemon that requires TLS before they send it anything, and a token is
// their password. Long requests and answers come over TLS as they come without.
func TestClientsWithTLS(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	principals := filepath.Join(t.TempDir(), "principals")
	made := must.Get(exec.Command(harness.Program(t, "jobctl"), "--config=", "token", "new", "shop", "--scope", "run", "--targets", "*").Output())(t)
	var token string
	for word := range strings.FieldsSeq(string(made)) {
		if strings.HasPrefix(word, "jobd_shop_") {
			token = word
		}
	}
	line := fmt.Sprintf("shop run * token:sha256:%x\n", sha256.Sum256([]byte(token)))
	must.Do(t, os.WriteFile(principals, []byte(line), 0o600))
	offer := func(names ...string) settings {
		file, key := authority.Issue(t, t.TempDir(), names...)
		s := harness.Settings{
			"host": "127.0.0.1", "port": harness.FreePort(t), "log_level_console": "info",
			"tls": "require", "tls_cert": file, "tls_key": key, "principals_file": principals,
		}
		d := harness.Launch(t, "jobd-master", s.Write(t), s.Addr())
		harness.Until(t, func() string {
			return strings.Replace(fmt.Sprint(strings.Contains(d.Output(), "master serves")), "true", "", 1)
		})
		host, port, _ := strings.Cut(d.Addr, ":")
		return settings{"JOBCTL_HOST": host, "JOBCTL_PORT": port, "JOBCTL_MASTER": "true", "JOBCTL_PASSWORD": token, "JOBCTL_TLS_CA": authority.File}
	}
	here, named := offer("127.0.0.1"), offer("jobs.example.com")
	for name, test := range map[string]struct {
		ask            settings
		code, contains string
	}{
		"its address":         {here, "", `"workers":[]`},
		"its name":            {named.with(settings{"JOBCTL_TLS_NAME": "jobs.example.com"}), "", `"workers":[]`},
		"another name":        {here.with(settings{"JOBCTL_TLS_NAME": "jobs.example.com"}), "unreachable", "can't be reached: "},
		"another address":     {named, "unreachable", "can't be reached: "},
		"a foreign authority": {here.with(settings{"JOBCTL_TLS_CA": certtest.New(t).File}), "unreachable", "can't be reached: "},
		"the system's":        {here.with(settings{"JOBCTL_TLS_CA": "", "JOBCTL_TLS": "verify"}), "unreachable", "can't be reached: "},
		"told not to verify":  {named.with(settings{"NODE_TLS_REJECT_UNAUTHORIZED": "0", "NODE_NO_WARNINGS": "1"}), "unreachable", "can't be reached: "},
		"no file":             {here.with(settings{"JOBCTL_TLS_CA": "/nowhere.pem"}), "unreachable", "can't be reached: "},
		"without TLS":         {here.with(settings{"JOBCTL_TLS_CA": ""}), "refused", "TLS is required here"},
		"another token":       {here.with(settings{"JOBCTL_PASSWORD": token + "x"}), "invalid-password", "invalid password"},
	} {
		for _, l := range languages(t) {
			if l.name != "php" && l.name != "node" {
				continue
			}
			if told := l.call(test.ask, "status"); told.code != test.code || !strings.Contains(told.out+told.text, test.contains) {
				t.Errorf("%s, %s: %v, want %s, %q", l.name, name, told, test.code, test.contains)
			}
		}
	}
	long := make([]string, 20_000)
	for i := range long {
		long[i] = fmt.Sprintf("%d:nowhere", i+1)
	}
	for _, l := range languages(t) {
		if l.name == "php" || l.name == "node" {
			if told := l.call(here, append([]string{"run"}, long...)...); told.code != "" || strings.Count(told.out, "not found") != len(long) {
				t.Errorf("%s, a long request: %s, %d bytes", l.name, told.code, len(told.out))
			}
		}
	}
}
