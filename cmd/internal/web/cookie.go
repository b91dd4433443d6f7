package web

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"jobd/net/principal"
)

// signedIn is how long somebody stays signed in.
const signedIn = 12 * time.Hour

// cookies are what browsers show for a secret that they have given: its digest and the time until which that is
// good, sealed with a key that nobody else knows. The digest leads to the credential, so whoever is signed in is
// so for as long as that is one; it is not to be read, since a short password could be found by it.
type cookies struct {
	seal cipher.AEAD
	now  func() time.Time
}

func newCookies(dir string, log *slog.Logger) *cookies {
	key := make([]byte, keyLength)
	_, _ = rand.Read(key) // never fails
	if dir != "" {
		key = keptKey(filepath.Join(dir, keyFile), key, log)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // of a key of another length
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // of no block cipher
	}
	return &cookies{seal, time.Now}
}

// cookieName names the port: browsers show a host's cookies to all of its ports. Under TLS none but this host's own
// pages under TLS can set it.
func cookieName(r *http.Request, tls bool) string {
	name := "jobd"
	if tcp, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); is {
		name = fmt.Sprintf("jobd_%d", tcp.Port)
	}
	if tls {
		return "__Host-" + name
	}
	return name
}

// set has the browser show a secret's digest from now on.
func (c *cookies) set(w http.ResponseWriter, r *http.Request, secure bool, digest [sha256.Size]byte) {
	name := cookieName(r, secure)
	until := binary.BigEndian.AppendUint64(nil, uint64(c.now().Add(signedIn).Unix()))
	sealed := c.seal.Seal(nil, nil, append(until, digest[:]...), []byte(name))
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: base64.RawURLEncoding.EncodeToString(sealed), Path: "/", MaxAge: int(signedIn / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
}

// clear has the browser forget it.
func (c *cookies) clear(w http.ResponseWriter, r *http.Request, secure bool) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r, secure), Path: "/", MaxAge: -1, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
}

// read gives the digest that a request shows, and until when that is good.
func (c *cookies) read(r *http.Request, tls bool) (digest [sha256.Size]byte, until time.Time, is bool) {
	name := cookieName(r, tls)
	for _, cookie := range r.CookiesNamed(name) {
		sealed, _ := base64.RawURLEncoding.DecodeString(cookie.Value)
		content, err := c.seal.Open(nil, nil, sealed, []byte(name))
		if err != nil || len(content) != 8+len(digest) {
			continue // another server's of this host, or of a former key
		}
		until = time.Unix(int64(binary.BigEndian.Uint64(content)), 0)
		if c.now().Before(until) {
			copy(digest[:], content[8:])
			return digest, until, true
		}
	}
	return digest, time.Time{}, false
}

// The file of the key, in the journal's folder.
const (
	keyFile   = "cookie.key"
	keyLength = 32
)

// keptKey is the key in a file, which is made where there is none: then it is the new one.
//
// The crash argument: the key is complete on the disk before it has its name, so a start finds a whole one or
// none; what a killed one leaves has another name, and the next start replaces it. A file that can't be used is
// replaced: nothing is lost but that people sign in again. Where none can be made, on a full disk say, the key is
// in memory, and they sign in again when the daemon starts again.
func keptKey(path string, fresh []byte, log *slog.Logger) []byte {
	var key []byte
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() { // a pipe would be read for ever
		err = fmt.Errorf("%s is no file", path)
	}
	if err == nil {
		key, err = os.ReadFile(path)
	}
	switch {
	case err == nil && len(key) == keyLength:
		return key
	case err == nil:
		err = fmt.Errorf("%s: %d bytes, and a key has %d", path, len(key), keyLength)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the key of the page's cookies can't be used and is replaced: people must sign in again", "error", err)
	}
	if err := writeKey(path, fresh); err != nil {
		log.Warn("the key of the page's cookies can't be kept: people must sign in again after each restart", "error", err)
	}
	return fresh
}

func writeKey(path string, key []byte) error {
	made := path + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(key)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(made, path)
}

//go:embed signin.css
var style []byte

//go:embed signin.html
var formText string

var formPage = sync.OnceValue(func() *template.Template { return template.Must(template.New("sign-in").Parse(formText)) })

// form is where people sign in; session is who asks already, or nil.
func (f *front) form(w http.ResponseWriter, r *http.Request, code int, next, why string, session *principal.Session) {
	var text bytes.Buffer
	err := formPage().Execute(&text, map[string]any{"Program": f.routes.Program, "Host": r.Host, "Next": local(next), "Why": why, "Session": session})
	if err != nil {
		panic(err) // of a template without methods
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes())
}

// signIn takes the form. A secret is judged as over a link, in its turn among the guesses of its address.
func (f *front) signIn(w http.ResponseWriter, r *http.Request) {
	conn, secret, next := connOf(r), r.PostFormValue("credential"), r.PostFormValue("next")
	switch session, err := f.judge(r, secret); {
	case err != nil:
		f.form(w, r, http.StatusTooManyRequests, next, err.Error()+": try again in a minute", nil)
	case session == nil:
		f.log.Warn("wrong password over HTTP", "peer", conn.peer().Address)
		f.form(w, r, http.StatusUnauthorized, next, "This is neither a token nor the password.", nil)
	default:
		f.cookies.set(w, r, conn.peer().TLS, sha256.Sum256([]byte(secret)))
		http.Redirect(w, r, local(next), http.StatusSeeOther)
	}
}

// local is a path of this server; / where it may lead elsewhere. Browsers leave out control characters, and take
// a backslash for a slash.
func local(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.HasPrefix(next, "/sign-") ||
		strings.ContainsRune(next, '\\') || strings.ContainsFunc(next, unicode.IsControl) {
		return "/"
	}
	return next
}
