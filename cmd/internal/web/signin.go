package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"unicode"

	"jobd/net/principal"
)

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
