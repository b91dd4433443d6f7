package services

import (
	"path/filepath"
	"strings"
	"testing"
)

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
	if got := shown(a.run(a.reach(slow.url("/jobs/waits/{id}")))); !strings.Contains(got, "HTTP/1.1 504 Gateway Time-out: the service behind it may have had the request: nobody can tell") {
		t.Errorf("what nginx does not wait for ended as %s", got)
	}
}
