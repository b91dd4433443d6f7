package principal_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/net/principal"
	"jobd/store/storetest/must"
)

const digest = "token:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// refusals are files that can't be used, and why.
var refusals = []struct{ content, why string }{
	{"ann admin *", "line 1: allowed: NAME SCOPE TARGETS CREDENTIAL, and behind them expires=TIME"},
	{"\n# x\nann admin localhost", "line 3: allowed: NAME"},
	{"a run * localhost expires=2027-01-01 expires=2027-01-01", "allowed: NAME"},
	{"a run * localhost\nä run * uid:1", "line 2: not a name; allowed: 1 to 64 of"},
	{"\ufeffann run * localhost", "line 1: not a name"},
	{strings.Repeat("a", 65) + " run * localhost", "not a name"},
	{"password run * localhost", "save the word password"},
	{"a Run * localhost", "line 1: not a scope; allowed: status, read, submit, run, admin and worker"},
	{"a run,submit * localhost", "not a scope"},
	{"a run mail,* localhost", "line 1: not a list of targets; allowed: NAME,NAME"},
	{"a run re* localhost", "not a list of targets"},
	{"a run * local", "line 1: not a credential; allowed: token:sha256:HEX, cert:NAME, uid:ACCOUNT, proxy:USER and localhost"},
	{"a run * localhost:", "not a credential"},
	{"a run * TOKEN:sha256:00", "not a credential"},
	{"a run * " + digest[:76], "line 1: not a token's digest; allowed: token:sha256:HEX"},
	{"a run * " + digest + "0", "not a token's digest"},
	{"a run * " + strings.Replace(digest, "256", "512", 1), "not a token's digest"},
	{"a run * " + strings.Replace(digest, "f", "g", 1), "not a token's digest"},
	{"a run * cert:", "line 1: not a certificate's name; allowed: cert:NAME"},
	{"a run * cert:*.example.com", "without wildcards"},
	{"a run * proxy:", "not a credential"},
	{"a run * proxy:a\na read * proxy:a", "line 2: line 1 has this credential, too"},
	{"a run * uid:no-such-account", "line 1: not an account of this host; allowed:"},
	{"a run * uid:", "not an account"},
	{"a run * uid:-1", "not an account"},
	{"a run * uid:4294967295", "not an account"},
	{"a run * uid:4294967296", "not an account"},
	{"a run * localhost expire=2027-01-01", "line 1: not an option; allowed: expires=2027-01-01"},
	{"a run * localhost expires=", "not an option"},
	{"a run * localhost expires=2027-02-30", "not an option"},
	{"a run * localhost expires=0001-01-01", "not an option"},
	{"a run * localhost expires=2027-01-01T12:00:00", "not an option"},
	{"a run * localhost 2027-01-01", "not an option"},
	{"a run * localhost\n\nb run * localhost", "line 3: line 1 has this credential, too; allowed: one line for each"},
	{"a run * uid:root\nb run * uid:0", "line 2: line 1 has this credential, too"},
	{"a run * uid:0\nb run * uid:000", "line 2: line 1 has this credential, too"},
	{"a run * cert:a\na read * cert:a", "line 2: line 1 has this credential, too"},
	{"a run * " + digest + "\nb run * token:sha256:" + strings.ToUpper(digest[13:]), "line 2: line 1 has this credential, too"},
	{"a run * localhost\n" + uids(10_000), "line 10001: too many credentials; allowed: 10000"},
}

// uids are lines for so many accounts.
func uids(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a run * uid:%d\n", i)
	}
	return b.String()
}

func TestLinesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range refusals {
		_, err := principal.Parse([]byte(test.content))
		if err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%.60q: %v, want %s", test.content, err, test.why)
		}
	}
}

// A secret in a wrong place is not told, wherever it stands.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	token, credential := newToken(t, "ann")
	words := []string{"ann", "run", "*", credential, "expires=2027-01-01"}
	for i := range words {
		for _, secret := range []string{token, "token:" + token, "token:sha256:" + token, "uid:" + token, "cert:*" + token, "expires=" + token, "s3cr,*," + token} {
			line := strings.Join(words[:i], " ") + " " + secret + " " + strings.Join(words[i+1:], " ")
			switch _, err := principal.Parse([]byte(line)); {
			case err == nil:
				if i > 2 {
					t.Errorf("%s is taken", line)
				}
			case strings.Contains(err.Error(), token[:20]) || strings.Contains(err.Error(), "s3cr"):
				t.Errorf("%s: %v", line, err)
			case i == 3 && secret == token && !strings.Contains(err.Error(), "jobctl token check makes"):
				t.Errorf("a token in place of its digest: %v", err)
			}
		}
	}
}

// No content of a file leads to a panic, and what is taken is what its lines say, each by itself.
func FuzzParse(f *testing.F) {
	for _, test := range refusals[:len(refusals)-1] {
		f.Add(test.content)
	}
	f.Add("a admin * " + digest + " expires=2027-01-01\nb worker mail,reports/* cert:b # x\n\n#c\n")
	f.Fuzz(func(t *testing.T, content string) {
		k, err := principal.Parse([]byte(content))
		if err != nil {
			return
		}
		lines := 0
		for line := range strings.Lines(content) {
			one, err := principal.Parse([]byte(line))
			if err != nil {
				t.Fatalf("%q alone: %v", line, err)
			}
			lines += one.Lines()
			for uid := range 3 {
				if l := one.UID(uid); said(k.UID(uid)) != said(l) && l != nil {
					t.Fatalf("%q is %s alone, and %s among others", line, said(l), said(k.UID(uid)))
				}
			}
		}
		must.Equal(t, lines, k.Lines(), "lines, one by one")
	})
}

// inFile writes a file of principals that belongs to somebody, in a folder that others can reach.
func inFile(t *testing.T, content string, mode os.FileMode, owner, group int) string {
	t.Helper()
	folder := must.Get(os.MkdirTemp("", "jobd-principals-"))(t)
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, "principals")
	for _, err := range []error{
		os.Chmod(folder, 0o755), os.WriteFile(path, []byte(content), mode), os.Chown(path, owner, group), os.Chmod(path, mode),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

const nobody = 65534

// A file that others can read or write is refused, by root and by another account.
func TestFilesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
	const belongs, open = "it belongs to account", "others may read or write it (mode"
	for _, test := range []struct {
		mode         os.FileMode
		owner, group int
		root, other  string // what is wrong for root, and for the account nobody; "": nothing
	}{
		{0o600, 0, 0, "", "permission denied"},
		{0o600, nobody, nobody, belongs + " 65534; allowed: root and the daemon's, 0", ""},
		{0o400, nobody, 12345, belongs, ""},
		{0o600, 12345, nobody, belongs, "permission denied"},
		{0o640, 12345, nobody, belongs, belongs + " 12345; allowed: root and the daemon's, 65534"},
		{0o640, 0, 0, "", "permission denied"},
		{0o640, 0, nobody, open + " 0640, group 65534): chmod 0600, or 0640 with root's group or the daemon's, 0", ""},
		{0o640, nobody, 12345, belongs, open + " 0640, group 12345): chmod 0600, or 0640 with root's group or the daemon's, 65534"},
		{0o660, 0, nobody, open, open},
		{0o620, 0, 0, open, "permission denied"},
		{0o644, 0, 0, open + " 0644, group 0)", open},
		{0o604, 0, 0, open, open},
		{0o602, 0, 0, open, "permission denied"},
		{0o611, 0, 0, "", "permission denied"},
	} {
		path := inFile(t, "a run * localhost\n", test.mode, test.owner, test.group)
		link := filepath.Join(filepath.Dir(path), "link")
		must.Do(t, os.Symlink("principals", link))
		for _, path := range []string{path, link} {
			mine := "" // what root is told
			if _, err := principal.Open(path, slog.New(slog.DiscardHandler)); err != nil {
				mine = err.Error()
			}
			for who, told := range map[string][2]string{"root": {mine, test.root}, "nobody": {asNobody(t, path), test.other}} {
				got, want := told[0], told[1]
				if want == "" && got != "" || !strings.Contains(got, want) || got != "" && !strings.Contains(got, path) {
					t.Errorf("%04o of %d:%d, for %s: %q, want %q", test.mode, test.owner, test.group, who, got, want)
				}
			}
		}
	}
}

// opened tells a process of TestMain which file it is to open.
const opened = "OPEN_PRINCIPALS"

func TestMain(m *testing.M) {
	if path := os.Getenv(opened); path != "" {
		if _, err := principal.Open(path, slog.New(slog.DiscardHandler)); err != nil {
			fmt.Print(err)
		}
		return
	}
	os.Exit(m.Run())
}

// asNobody is what the account nobody is told when it opens a file.
func asNobody(t *testing.T, path string) string {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{opened + "=" + path, "GORACE=atexit_sleep_ms=0"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	c.Stderr = os.Stderr
	out := must.Get(c.Output())(t)
	return string(out)
}

func TestFilesThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{
		filepath.Join(folder, "absent"): "no such file",
		folder:                          "not a plain file; allowed: one, or a link to one",
		pipe:                            "not a plain file",
		"/dev/null":                     "not a plain file",
		inFile(t, "a run * localhost\nb\n", 0o600, os.Getuid(), os.Getgid()):         "line 2: allowed:",
		inFile(t, strings.Repeat("#\n", 1<<19)+"#", 0o600, os.Getuid(), os.Getgid()): "too long; allowed: 1 MiB",
	} {
		if _, err := principal.Open(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	var log bytes.Buffer
	k, err := principal.Open(inFile(t, strings.Repeat("#\n", 1<<19), 0o600, os.Getuid(), os.Getgid()), slog.New(slog.NewTextHandler(io.MultiWriter(&log), nil)))
	if err != nil || k.Lines() != 0 || log.Len() > 0 {
		t.Errorf("the longest file: %v, %s", err, &log)
	}
}
