package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

//go:embed templates
var sources embed.FS

// templates are parsed when somebody first asks: a worker's runner is this program, too, and shows no page.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"clean": screen.Clean,
		"comma": func(n any) string { return comma(n) },
		"bytes": func(n any) string { return humanize.IBytes(uint64(max(0, whole(n)))) },
		"seg":   url.PathEscape,
		"stamp": stamp,
		"unix":  func(seconds int64) time.Time { return unixTime(seconds, time.Second) },
		"milli": func(millis int64) time.Time { return unixTime(millis, time.Millisecond) },
		"bar":   newBar,
		"dict":  dict,
	}).ParseFS(sources, "templates/*.html"))
})

// stamp is in the addresses of files, so that a browser keeps those of this version only.
var stamp = sync.OnceValue(func() string {
	all := sha256.New()
	_ = fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			content, _ := static.ReadFile(name)
			all.Write(content)
		}
		return err
	})
	return hex.EncodeToString(all.Sum(nil)[:6])
})

// dict gives a template several values: names and values in turn.
func dict(pairs ...any) map[string]any {
	all := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		all[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return all
}

func unixTime(n int64, unit time.Duration) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, 0).Add(time.Duration(n) * unit)
}

func whole(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	case *int64:
		return *n
	}
	return 0
}

func comma(n any) string { return humanize.Comma(whole(n)) }

// bar is a share as a picture: used of all, in pixels of a width.
type bar struct{ Used, All, Width, Fill int64 }

func newBar(used, all any) bar {
	const width = 60
	b := bar{Used: whole(used), All: whole(all), Width: width}
	if b.All > 0 {
		b.Fill = min(width, (b.Used*width+b.All-1)/b.All)
	}
	return b
}

// shown is what a template gets: what a view gives, and whom it is for.
type shown struct {
	*look
	Body any
}

// Now is when the page was made.
func (l *look) Now() time.Time { return l.now }

// Master tells whether this is a master's page.
func (l *look) Master() bool { return l.page.Master }

// Ago is how long ago something was.
func (l *look) Ago(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return screen.Length(l.now.Sub(at))
}

// Millis is a length of time.
func (*look) Millis(n any) string {
	return screen.ShortLength(time.Duration(whole(n)) * time.Millisecond)
}

// In is how long until something is; what is over is due.
func (l *look) In(at time.Time) string {
	if d := at.Sub(l.now); d > 0 {
		return "in " + screen.Length(d)
	}
	return "due"
}

// stampedTime is a time for a template: as the server's clock shows it, which a script turns into the
// viewer's.
type stampedTime struct {
	At   time.Time
	Text string
}

// Time is a moment of today without its date.
func (l *look) Time(at time.Time) stampedTime {
	at = at.Local()
	layout := time.DateTime
	if now := l.now.Local(); at.Year() == now.Year() && at.YearDay() == now.YearDay() {
		layout = time.TimeOnly
	}
	return stampedTime{at, at.Format(layout)}
}

// Zone names the server's.
func (l *look) Zone() string { return l.now.Local().Format("MST -07:00") }

// Notes are those who could not be asked, in sentences.
func (l *look) Notes() (all []string) {
	for _, err := range l.notes {
		all = append(all, lines(err)...)
	}
	return all
}

// With is this address with another value in its query; "" takes it away.
func (l *look) With(name, value string) string {
	q := l.URL.Query()
	q.Del("said")
	q.Del("before")
	q.Del("after")
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	if len(q) == 0 {
		return l.URL.Path
	}
	return l.URL.Path + "?" + q.Encode()
}

// Query is a value of the address.
func (l *look) Query(name string) string { return l.URL.Query().Get(name) }

// Here is the address that leads back here.
func (l *look) Here() string { return l.With("said", "") }

// Kind is a request by its name, for May.
func (*look) Kind(name string) (api.Kind, error) {
	kind, declared := api.Kinds[name]
	if !declared {
		return kind, fmt.Errorf("no request is named %s", name)
	}
	return kind, nil
}

// Can tells whether whoever looks may ask a request of this name.
func (l *look) Can(name string) (bool, error) {
	kind, err := l.Kind(name)
	return err == nil && l.May(kind), err
}

// render fills a template in.
func (p *Page) render(l *look, name string, body any) (template.HTML, error) {
	var text bytes.Buffer
	if err := templates().ExecuteTemplate(&text, name, shown{l, body}); err != nil {
		p.Log.Error("a page could not be made", "template", name, "error", err)
		return "", err
	}
	return template.HTML(text.String()), nil // what the templates escaped
}

// navigation is a word in the bar.
type navigation struct {
	Path, Title string
	Here        bool
}

// framed is what the frame shows.
type framed struct {
	*look
	Title  string
	Nav    []navigation
	Main   template.HTML
	Said   []string // about what was done last
	Live   bool
	Charts bool
}

// Who names whoever is signed in; "": nobody needs to.
func (f framed) Who() string { return f.session.Name }

// SignedIn tells whether there is something to sign out of.
func (f framed) SignedIn() bool {
	return slices.ContainsFunc(f.Cookies(), func(c *http.Cookie) bool { return strings.HasPrefix(strings.TrimPrefix(c.Name, "__Host-"), "jobd_") })
}

// Named names what one looks at.
func (f framed) Named() string {
	if f.page.Master {
		return "master " + f.page.Name
	}
	return f.page.Name
}

// framed is what stands around a screen's main part.
func (p *Page) framed(l *look, s *aScreen, main template.HTML) framed {
	f := framed{look: l, Title: s.title, Main: main, Said: p.said.take(l.Query("said")), Live: s.live > 0, Charts: s.charts}
	if l.title != "" {
		f.Title = l.title
	}
	for _, other := range screens {
		if other.nav && other.needs.Lets(l.session) == nil {
			here := other == s || other.path != "/{$}" && strings.HasPrefix(l.URL.Path, other.path)
			path := strings.TrimSuffix(other.path, "{$}")
			if other.then != nil {
				path = l.Keep(path)
			}
			f.Nav = append(f.Nav, navigation{path, other.title, here})
		}
	}
	return f
}

// frame writes a screen with all that stands around it.
func (p *Page) frame(w http.ResponseWriter, l *look, s *aScreen, code int, main template.HTML) {
	var text bytes.Buffer
	if err := templates().ExecuteTemplate(&text, "frame.html", p.framed(l, s, main)); err != nil {
		p.Log.Error("a page could not be made", "error", err)
		http.Error(w, "the page could not be made: the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = text.WriteTo(w)
}

//go:embed static
var static embed.FS

// compressed are the files of the page, as browsers get them.
var compressed = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	entries, _ := static.ReadDir("static")
	for _, entry := range entries {
		content, _ := static.ReadFile("static/" + entry.Name())
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		_, _ = w.Write(content)
		_ = w.Close()
		all[entry.Name()] = packed.Bytes()
	}
	return all
})

// file sends a file. A page is shown with those of its own version, whose stamp is in their addresses: they
// stay as they are for ever.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	packed, there := compressed()[name]
	if !there || r.PathValue("stamp") != stamp() {
		p.fail(w, p.look(r), notFound("there is no file %s of this version: load the page anew", name))
		return
	}
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed)
		return
	}
	content, _ := static.ReadFile("static/" + name)
	_, _ = w.Write(content)
}
