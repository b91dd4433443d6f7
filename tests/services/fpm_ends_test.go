package services

import (
	"strings"
	"testing"
)

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
		"killed":           {`echo 'out'; flush(); exec('kill -9 ' . getmypid());`, `* out "out" err "": the request did not come to its end: the connection was closed: nobody can tell how it ended`},
		"terminated":       {`exec('kill -TERM ' . getmypid()); sleep(60);`, `* out "" err "": the request did not come to its end: the connection was closed: nobody can tell how it ended`},
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

func TestPHPWritesMuch(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 1)
	a := newAsker(t)
	for name, code := range map[string]string{
		"at_once": `header('Jobd-Exit-Code: 0'); echo str_repeat("\0x", 1_500_000);`,
		"pieces":  `header('Jobd-Exit-Code: 0'); for ($i = 0; $i < 3000; $i++) echo str_repeat("\0x", 500);`,
	} {
		done, err := a.run(a.serve(f.script(name, code)))
		if kept := strings.Repeat("\x00x", 1<<19); err != nil || done.Result != "ok" || done.Stdout.Size != 3_000_000 || string(done.Stdout.Kept) != kept {
			t.Errorf("%s: it ended as %s with %d of %d bytes, %v", name, done.Result, len(done.Stdout.Kept), done.Stdout.Size, err)
		}
	}
}
