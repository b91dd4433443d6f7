package services

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// fpm is php-fpm, of this machine's version, with processes and a socket of its own.
type fpm struct {
	t       *testing.T
	folder  string // its configuration, and the scripts
	address string // its socket, or host:port
	program string
	config  string
	master  *exec.Cmd
	lines   chan string // of its log
	read    chan struct{}
}

// newFPM starts php-fpm with so many processes, and with lines more in its configuration.
func newFPM(t *testing.T, address string, children int, more ...string) *fpm {
	t.Helper()
	programs, err := filepath.Glob("/usr/sbin/php-fpm*")
	if err != nil || len(programs) == 0 {
		t.Fatalf("there is no php-fpm (%v): make deps installs it", err)
	}
	folder, err := os.MkdirTemp("", "jobd-fpm-") // the path of a socket may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	f := &fpm{t: t, folder: folder, address: address, program: slices.Max(programs), lines: make(chan string, 10_000)}
	if address == "" {
		f.address = filepath.Join(folder, "s")
	}
	lines := append([]string{
		"[global]", "error_log = /proc/self/fd/2", "daemonize = no",
		"[www]", "listen = " + f.address, "pm = static", fmt.Sprint("pm.max_children = ", children),
		"php_admin_flag[log_errors] = on",
	}, more...)
	if os.Getuid() == 0 {
		lines = append(lines, "user = root", "group = root")
	}
	f.config = filepath.Join(folder, "fpm.conf")
	must.Do(t, os.WriteFile(f.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	f.start()
	t.Cleanup(f.stop)
	return f
}

// start starts the master process, in the foreground and without the settings of this machine.
func (f *fpm) start() {
	f.t.Helper()
	args := []string{"-F", "-n", "-y", f.config}
	if os.Getuid() == 0 {
		args = append(args, "-R")
	}
	out, in, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.master = exec.Command(f.program, args...)
	f.master.Stderr = in
	f.master.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(f.t, f.master.Start())
	in.Close()
	f.read = make(chan struct{})
	go func() {
		defer close(f.read)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.lines <- lines.Text()
		}
	}()
	f.says("ready to handle connections")
}

// stop ends the master and its processes, those included that it has left.
func (f *fpm) stop() {
	if f.master == nil {
		return
	}
	_ = syscall.Kill(-f.master.Process.Pid, syscall.SIGKILL) // they may have ended
	_ = f.master.Wait()                                      // that it was killed is no news
	<-f.read
	f.master = nil
	for f.t.Failed() && len(f.lines) > 0 {
		f.t.Log("php-fpm wrote:", <-f.lines)
	}
}

// says waits until a line of its log has a text in it.
func (f *fpm) says(text string) {
	f.t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case line := <-f.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			f.t.Fatalf("php-fpm does not say %q", text)
		}
	}
}

// script writes one, and gives the service that runs it.
func (f *fpm) script(name, code string) jobexec.Service {
	f.t.Helper()
	path := filepath.Join(f.folder, name+".php")
	must.Do(f.t, os.WriteFile(path, []byte("<?php\n"+code), 0o600))
	return jobexec.Service{Mode: jobexec.ModeFastCGI, Address: f.address, Script: path}
}

// example is the script that people copy.
func example(t *testing.T) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(harness.Top(), "examples", "launchers", "fastcgi.php")))(t)
	return path
}

// changed is the service of a copy of the example in which jobs do something else.
func (f *fpm) changed(name, body string) jobexec.Service {
	f.t.Helper()
	source := must.Get(os.ReadFile(example(f.t)))(f.t)
	const prints = `    echo "job $id, attempt ", $_SERVER['JOBD_ATTEMPT'], "\n";`
	code, found := strings.CutPrefix(strings.Replace(string(source), prints, body, 1), "<?php\n")
	if !found || !strings.Contains(code, body) {
		f.t.Fatal("the example does not print the attempt, or is no PHP")
	}
	return f.script(name, code)
}

func TestTheScriptOfTheExample(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 1, "php_flag[display_errors] = on")
	a := newAsker(t)
	for name, c := range map[string]struct{ body, want string }{
		"prints":  {`echo "job $id of {$_SERVER['JOBD_TARGET']}\n";`, `ok 0 out "job * of mail\n" err ""`},
		"code":    {`echo "why\n"; return 7;`, `fail 7 out "" err "Status: 200 OK\nwhy\n"`},
		"throws":  {`throw new Exception('told');`, `fail 255 out "" err "Status: 200 OK\nPHP message: Exception: told in *\n#0 *\nException: told"`},
		"exits":   {`exit(3);`, `fail 2 out "" err "Status: 200 OK\n"`},
		"much":    {`echo str_repeat('x', 100_000); flush();`, `ok 0 out "xxx*`},
		"is late": {`echo 'late';`, `fail 2 out "" err "Status: 200 OK\n"`},
	} {
		service := a.serve(f.changed(strings.ReplaceAll(name, " ", "_"), c.body))
		a.deadline = ""
		if name == "is late" {
			a.deadline = "1000000000"
		}
		if got := shown(a.run(service)); !like(got, c.want) {
			t.Errorf("what %s ended as %s, not %s", name, got, c.want)
		}
	}
}

func TestPHPEnds(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 2, "php_flag[display_errors] = off")
	a := newAsker(t)
	for name, c := range map[string]struct {
		code string
		want string // * stands for anything
	}{
		"ok":               {`ob_start(); echo "done\n"; header('Jobd-Exit-Code: 0');`, `ok 0 out "done\n" err ""`},
		"nul":              {`header('Jobd-Exit-Code: 0'); echo "a\0b\xff\n";`, `ok 0 out "a\x00b\xff\n" err ""`},
		"seven":            {`ob_start(); echo 'why'; header('Jobd-Exit-Code: 7');`, `fail 7 out "" err "Status: 200 OK\nwhy"`},
		"exits":            {`ob_start(); echo 'why'; exit(3);`, `fail 2 out "" err "Status: 200 OK\nwhy\n"`},
		"empty":            {``, `fail 2 out "" err "Status: 200 OK\n"`},
		"throws":           {`ob_start(); throw new Exception('told');`, `fail 5 out "" err "Status: 500 Internal Server Error\nPHP message: PHP Fatal error:  Uncaught Exception: told*`},
		"throws_displayed": {`ini_set('display_errors', '1'); ob_start(); throw new Exception('told');`, `fail 2 out "" err "Status: 200 OK\n<br />\n<b>Fatal error</b>:  Uncaught Exception: told*\nPHP message: *`},
		"dies_after":       {`ob_start(); header('Jobd-Exit-Code: 0'); nowhere();`, `fail 5 out "" err "Status: 500 Internal Server Error\n*`},
		"memory":           {`ob_start(); ini_set('memory_limit', '4M'); str_repeat('x', 10_000_000); header('Jobd-Exit-Code: 0');`, `fail 5 out "" err "Status: 500 Internal Server Error\n*Allowed memory size*`},
		"header_too_late":  {`echo 'out'; flush(); header('Jobd-Exit-Code: 0');`, `fail 2 out "" err "Status: 200 OK\nout\nPHP message: PHP Warning:  Cannot modify header information*`},
		"no_parse":         {`this is no PHP`, `fail 5 out "" err "Status: 500 Internal Server Error\nPHP message: PHP Parse error*`},
		"stderr":           {`header('Jobd-Exit-Code: 0'); echo 'out'; error_log('a word');`, `ok 0 out "out" err "PHP message: a word"`},
		"later":            {`http_response_code(503); header('Retry-After: 9'); echo 'busy';`, `fail 5 out "" err "Status: 503 Service Unavailable\nbusy", after 9 s`},
		"teapot":           {`http_response_code(418); header('Jobd-Exit-Code: 0');`, `fail 4 out "" err "Status: 418\n", for good`},
		"location":         {`header('Location: /x'); header('Jobd-Exit-Code: 0');`, `fail 3 out "" err "Status: 302 Found\n", for good`},
		"killed":           {`echo 'out'; flush(); exec('kill -9 ' . getmypid());`, `* out "out" err "": the request did not end: the connection was closed: its outcome is unknown`},
		"terminated":       {`exec('kill -TERM ' . getmypid()); sleep(60);`, `* out "" err "": the request did not end: the connection was closed: its outcome is unknown`},
		"goes_on":          {`header('Jobd-Exit-Code: 0'); echo 'out'; fastcgi_finish_request(); exit(1);`, `ok 0 out "out" err ""`},
		"absent":           {"", `fail 4 out "" err "Status: 404 Not Found\nFile not found.\nPrimary script unknown", for good`},
	} {
		service := f.script(name, c.code)
		if name == "absent" {
			service.Script = "/absent.php"
		}
		if got := shown(a.run(a.serve(service))); !like(got, c.want) {
			t.Errorf("%s ended as %s, not %s", name, got, c.want)
		}
	}
}

// like compares a text with one in which * stands for anything.
func like(text, pattern string) bool {
	first, rest, some := strings.Cut(pattern, "*")
	if !some {
		return text == pattern
	}
	text, begins := strings.CutPrefix(text, first)
	if !begins || rest == "" {
		return begins
	}
	for at := range text {
		if like(text[at:], rest) {
			return true
		}
	}
	return false
}

// Jobs go over HTTP through nginx to php-fpm, with what the page says: the script is told all that is
// signed as jobd has sent it, and it knows who asks.
func TestPHPBehindNginx(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 2)
	f.script("index", `require '`+signed(t, "signed.php")+`';
if (!jobd_signed('`+secret+`')) { http_response_code(401); exit('not signed'); }
if (str_contains($_SERVER['REQUEST_URI'], 'waits')) sleep(60);
if (str_contains($_SERVER['REQUEST_URI'], 'fails')) header('Jobd-Exit-Code: 7');
echo "job {$_SERVER['HTTP_JOBD_ID']} of {$_SERVER['HTTP_JOBD_TARGET']}";
`)
	_, lines, found := strings.Cut(page(t), "\nlocation ~ ^/jobs/ {\n")
	lines, _, ended := strings.Cut(lines, "\n}\n")
	const host = "fastcgi_param HTTP_HOST $http_host;"
	for _, line := range []string{"include fastcgi_params;", host, "/srv/app/public/index.php", "unix:/run/php/php-fpm.sock", "fastcgi_read_timeout 1h;"} {
		if !found || !ended || strings.Count(lines, line) != 1 {
			t.Fatalf("the page's location for php-fpm has no %s:\n%s", line, lines)
		}
	}
	lines = strings.NewReplacer("/srv/app/public/index.php", filepath.Join(f.folder, "index.php"), "unix:/run/php/php-fpm.sock", "unix:"+f.address,
		"include fastcgi_params;", "include /etc/nginx/fastcgi_params;").Replace(lines)
	front := nginxWith(t, "location ~ ^/jobs/ {\n"+lines+"\n}\n"+
		"location ~ ^/debian/ {\n"+strings.Replace(lines, host, "fastcgi_param HTTP_HOST $host;", 1)+"\n}\n")
	a := newAsker(t)
	for path, want := range map[string]string{
		"/jobs/{id}?id={id}&a=%C3%A4": `ok 0 out "job * of mail" err ""`,
		"/jobs/fails/{id}":            `fail 7 *`,
		"/debian/{id}":                `fail *401* for good`,
	} {
		if got := shown(a.run(a.reach(front.url(path)))); !like(got, want) {
			t.Errorf("%s ended as %s, not %s", path, got, want)
		}
	}
	slow := nginxWith(t, "location / {\n"+strings.Replace(lines, "timeout 1h;", "timeout 300ms;", 1)+"\n}\n")
	if got := shown(a.run(a.reach(slow.url("/jobs/waits/{id}")))); !strings.Contains(got, "HTTP/1.1 504 Gateway Time-out: the service behind it may have had the request: its outcome is unknown") {
		t.Errorf("what nginx does not wait for ended as %s", got)
	}
}

// held is a script that notes in a file that it runs, waits until it may go on, and notes that it has
// ended.
const held = `ob_start();
file_put_contents(__DIR__ . '/came', $_SERVER['JOBD_ID'] . ' ', FILE_APPEND);
while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
file_put_contents(__DIR__ . '/left', $_SERVER['JOBD_ID'] . ' ', FILE_APPEND);
header('Jobd-Exit-Code: 0');`

const connectionLost = "the request did not end: the connection was closed: its outcome is unknown"

// notes waits until a file says so.
func (f *fpm) notes(name, want string) {
	f.t.Helper()
	harness.Until(f.t, func() string {
		got, err := os.ReadFile(filepath.Join(f.folder, name))
		if string(got) != want {
			return name + " has " + string(got) + ", not " + want + ": " + errorText(err)
		}
		return ""
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// release lets the scripts that are held go on.
func (f *fpm) release() {
	f.t.Helper()
	must.Do(f.t, os.WriteFile(filepath.Join(f.folder, "go"), nil, 0o600))
}

func (f *fpm) signal(signal syscall.Signal) {
	f.t.Helper()
	must.Do(f.t, f.master.Process.Signal(signal))
}

// ended is the end of a job, in a line.
func ended(t *testing.T, p jobexec.Process) string {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(harness.Patience):
		t.Fatal("a job does not end")
	}
	return shown(p.Outcome())
}

// systemctl reload php-fpm kills what runs, unless process_control_timeout gives it time.
func TestPHPIsReloaded(t *testing.T) {
	t.Parallel()
	for name, global := range map[string]string{"at once": "0", "in time": "60s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFPM(t, "", 1, "[global]", "process_control_timeout = "+global, "[www]")
			a := newAsker(t)
			process := a.start(a.serve(f.script("job", held)), harness.Patience)
			f.notes("came", "1 ")
			f.signal(unix.SIGUSR2)
			if global == "0" {
				if got := ended(t, process); !strings.HasSuffix(got, connectionLost) {
					t.Errorf("it ended as %s", got)
				}
				return
			}
			f.says("Reloading in progress")
			f.release()
			check.Equal(t, ended(t, process), `ok 0 out "" err ""`, "it ended as")
		})
	}
}
