package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// People sign in by a form, and stay so until they sign out, or their credential ends.
func TestSignIn(t *testing.T) {
	t.Parallel()
	ann, line := tokenOf(t, "ann admin *")
	const password = "the password of all of them"
	p := newPeople(t, line)
	who := p.who(password)
	address := "http://" + serveTo(t, anyPort, routes(), who).address()
	signIn := func(secret, next string) (*http.Response, string) {
		t.Helper()
		return send(t, http.DefaultClient, "POST", address+"/sign-in", url.Values{"credential": {secret}, "next": {next}}, "Sec-Fetch-Site: same-origin")
	}
	if _, body := send(t, http.DefaultClient, "GET", address+`/jobs?a="b"&c=d`, nil, "Accept: text/html"); !strings.Contains(body, `value="/jobs?a=%22b%22&amp;c=d"`) && !strings.Contains(body, `value="/jobs?a=&#34;b&#34;&amp;c=d"`) {
		t.Errorf("the form leads back elsewhere: %s", body)
	}
	for _, wrong := range []string{"", "x", ann[:len(ann)-1], strings.ToUpper(password)} {
		answer, body := signIn(wrong, "/jobs?a=b")
		if answer.StatusCode != 401 || len(answer.Cookies()) > 0 || !strings.Contains(body, "neither a token nor the password") ||
			!strings.Contains(body, `value="/jobs?a=b"`) || wrong != "" && strings.Contains(body, `"`+wrong+`"`) {
			t.Errorf("%q: %s %s", wrong, answer.Status, body)
		}
	}
	cookies := map[string]string{}
	for name, secret := range map[string]string{"ann (token": ann, "password (": password} {
		answer, _ := signIn(secret, "/jobs?a=b")
		if answer.StatusCode != 303 || answer.Header.Get("Location") != "/jobs?a=b" || len(answer.Cookies()) != 1 {
			t.Fatalf("%s: %s, %v", name, answer.Status, answer.Header)
		}
		cookie := answer.Cookies()[0]
		port := address[strings.LastIndex(address, ":")+1:]
		if cookie.Name != "jobd_"+port || !cookie.HttpOnly || cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.MaxAge != 12*60*60 ||
			strings.Contains(cookie.Value, secret) {
			t.Errorf("%s: %s", name, cookie)
		}
		cookies[name] = "Cookie: " + cookie.Name + "=" + cookie.Value
		if _, body := send(t, http.DefaultClient, "GET", address+"/", nil, cookies[name]); !strings.Contains(body, "asked by "+name) {
			t.Errorf("%s: %q", name, body)
		}
		if _, body := send(t, http.DefaultClient, "GET", address+"/sign-in", nil, cookies[name]); !strings.Contains(body, "known as "+name) {
			t.Errorf("%s: %s", name, body)
		}
	}
	answer, _ := send(t, http.DefaultClient, "POST", address+"/sign-out", url.Values{}, cookies["ann (token"], "Sec-Fetch-Site: same-origin")
	if gone := answer.Cookies(); answer.StatusCode != 303 || len(gone) != 1 || gone[0].MaxAge >= 0 {
		t.Errorf("sign-out: %s, %v", answer.Status, gone)
	}
	if answer, body := send(t, http.DefaultClient, "GET", address+"/sign-in.css", nil); answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("the style: %s %q", answer.Status, body)
	}

	removed := time.Now()
	p.write()
	for {
		answer, _ := send(t, http.DefaultClient, "GET", address+"/", nil, cookies["ann (token"])
		if answer.StatusCode == 401 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if took := time.Since(removed); took > 5*time.Second { // a second, on a host that is idle
		t.Errorf("the cookie outlived its token by %v", took)
	}
	// The daemon starts again with another password, and the same key.
	for secret, code := range map[string]int{password: 200, "another password, a long one": 401, "": 401} {
		again := newFront(anyPort, routes(), p.who(secret), slog.New(slog.DiscardHandler))
		conn, _ := net.Pipe()
		ctx := context.WithValue(t.Context(), connKey{}, connection{Conn: conn})
		request := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/", http.NoBody)
		recorder := httptest.NewRecorder()
		again.cookies.set(recorder, request, false, sha256.Sum256([]byte(password)))
		request.Header.Set("Cookie", recorder.Result().Cookies()[0].String())
		recorder = httptest.NewRecorder()
		if again.ServeHTTP(recorder, request); recorder.Code != code {
			t.Errorf("with the password %q: %d", secret, recorder.Code)
		}
	}
}

// A cookie counts as it was made: at its port, until its time, with its key.
func TestCookies(t *testing.T) {
	t.Parallel()
	c := newCookies("", slog.New(slog.DiscardHandler))
	digest := sha256.Sum256([]byte("secret"))
	request := func() *http.Request {
		return httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/", http.NoBody)
	}
	recorder := httptest.NewRecorder()
	c.set(recorder, request(), false, digest)
	cookie := recorder.Result().Cookies()[0]
	shown := func(name, value string) *http.Request {
		r := request()
		r.AddCookie(&http.Cookie{Name: name, Value: value})
		return r
	}
	if got, until, is := c.read(shown(cookie.Name, cookie.Value), false); !is || got != digest || time.Until(until) > signedIn || time.Until(until) < signedIn-time.Minute {
		t.Errorf("%x until %v, %t", got, until, is)
	}
	both := shown(cookie.Name, "of another server of this host")
	both.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	if _, _, is := c.read(both, false); !is {
		t.Error("another cookie of its name hides it")
	}
	for i := range cookie.Value {
		other := []byte(cookie.Value)
		if other[i]++; other[i] > 'z' {
			other[i] = 'A'
		}
		if got, _, is := c.read(shown(cookie.Name, string(other)), false); is && got != digest {
			t.Fatalf("changed at %d, it counts for %x", i, got)
		}
	}
	if _, _, is := c.read(shown("__Host-"+cookie.Name, cookie.Value), true); is {
		t.Error("it counts under TLS")
	}
	if _, _, is := newCookies("", slog.New(slog.DiscardHandler)).read(shown(cookie.Name, cookie.Value), false); is {
		t.Error("it counts for another key")
	}
	c.now = func() time.Time { return time.Now().Add(signedIn + time.Second) }
	if _, _, is := c.read(shown(cookie.Name, cookie.Value), false); is {
		t.Error("it counts behind its time")
	}
}

// The key lives in a file of the daemon's account; one that can't be used is replaced, and told.
func TestTheKeyOfCookies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, keyFile)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	fresh := func(letter string) []byte { return []byte(strings.Repeat(letter, keyLength)) }
	must.Do(t, os.WriteFile(path+".new", []byte("left by a start that was killed"), 0o600))
	if key := keptKey(path, fresh("a"), logger); string(key) != string(fresh("a")) || log.Len() > 0 {
		t.Errorf("made: %s; told: %s", key, &log)
	}
	check.Equal(t, must.Get(os.Stat(path))(t).Mode(), 0o600, "mode")
	if key := keptKey(path, fresh("b"), logger); string(key) != string(fresh("a")) || log.Len() > 0 {
		t.Errorf("kept: %s; told: %s", key, &log)
	}
	must.Do(t, os.WriteFile(path, []byte("short"), 0o600))
	if key := keptKey(path, fresh("c"), logger); string(key) != string(fresh("c")) || !strings.Contains(log.String(), "5 bytes, and a key has 32") {
		t.Errorf("a short one: %s; told: %s", key, &log)
	}
	log.Reset()
	must.Do(t, os.Remove(path))
	must.Do(t, syscall.Mkfifo(path, 0o600))
	if key := keptKey(path, fresh("e"), logger); string(key) != string(fresh("e")) || !strings.Contains(log.String(), "is no file") {
		t.Errorf("a pipe: %s; told: %s", key, &log)
	}
	log.Reset()
	if key := keptKey(filepath.Join(dir, "nowhere", keyFile), fresh("d"), logger); string(key) != string(fresh("d")) || !strings.Contains(log.String(), "can't be kept") {
		t.Errorf("no folder: %s; told: %s", key, &log)
	}
}

// Behind sign-in nobody is led away from this server.
func TestLocal(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/": "/", "/jobs?a=b#c": "/jobs?a=b#c", "": "/", "jobs": "/", "//evil.example": "/", "/\\evil.example": "/", "/\t/evil.example": "/",
		"https://evil.example/": "/", "/a\r\nSet-Cookie: x": "/", "/sign-in": "/", "/sign-out": "/", "javascript:alert(1)": "/", "/jobs//x": "/jobs//x",
	} {
		check.Equal(t, local(next), want, "%q leads to", next)
	}
}
