package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

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
	if !there || r.PathValue("stamp") != stamp {
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
