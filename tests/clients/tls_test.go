package clients

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
