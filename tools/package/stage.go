package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2/files"
)

const docFolder = "/usr/share/doc/jobd/"

// staging gathers what goes into the packages of one architecture. The first error stays.
type staging struct {
	order
	folder   string // of the files that are made for the packages
	contents files.Contents
	err      error
}

// stage tells which files stand where. What belongs to one sort of package says so.
func (o order) stage(arch string, programs []string, linked []module) (files.Contents, error) {
	s := &staging{order: o, folder: filepath.Join(o.work, "stage-"+arch)}
	for _, program := range programs {
		s.add("/usr/bin/"+filepath.Base(program), program, 0o755)
	}
	s.each("packaging/systemd/*.service", "/usr/lib/systemd/system/")
	s.each("packaging/systemd/*.socket", "/usr/lib/systemd/system/")
	s.own("/usr/lib/sysusers.d/jobd.conf", "packaging/sysusers/jobd.conf")
	s.own("/usr/lib/tmpfiles.d/jobd.conf", "packaging/tmpfiles/jobd.conf")
	s.configuration()
	for _, section := range []string{"1", "5", "8"} {
		s.zipped("packaging/man/*."+section, "/usr/share/man/man"+section+"/")
	}
	s.own("/usr/share/bash-completion/completions/jobctl", "cmd/jobctl/completions/jobctl.bash")
	s.own("/usr/share/zsh/vendor-completions/_jobctl", "cmd/jobctl/completions/jobctl.zsh").Packager = "deb"
	s.own("/usr/share/zsh/site-functions/_jobctl", "cmd/jobctl/completions/jobctl.zsh").Packager = "rpm"
	s.own("/usr/share/fish/vendor_completions.d/jobctl.fish", "cmd/jobctl/completions/jobctl.fish")
	s.tree("packaging/monitoring", "/usr/share/jobd/monitoring/")
	s.each("packaging/systemd/*.conf", "/usr/share/jobd/systemd/")
	s.pages()
	s.tree("examples/clients", docFolder+"examples/clients/")
	s.tree("examples/launchers", docFolder+"examples/launchers/")
	s.tree("examples/services", docFolder+"examples/services/")
	s.own(docFolder+"tools/verify.py", "tools/verify.py")
	s.papers(arch, programs, linked)
	return s.contents, s.err
}

// configuration is the examples: in force for the packages, and where they do no harm in an archive
// that is unpacked over what is there.
func (s *staging) configuration() {
	for _, name := range []string{"jobd.conf", "jobd-master.conf"} {
		for _, packager := range []string{"deb", "rpm"} {
			file := s.own("/etc/"+name, "packaging/"+name)
			file.Packager, file.Type = packager, files.TypeConfigNoReplace
			file.FileInfo.Mode, file.FileInfo.Group = 0o640, groupOf(packager)
		}
		s.own(docFolder+"examples/"+name, "packaging/"+name).Packager = "tar"
	}
	s.own(docFolder+"examples/jobctl.conf", "packaging/jobctl.conf")
	for _, packager := range []string{"deb", "rpm"} {
		s.contents = append(s.contents, &files.Content{
			Destination: "/etc/jobd", Type: files.TypeDir, Packager: packager,
			FileInfo: &files.ContentFileInfo{Mode: 0o750, Group: groupOf(packager)},
		})
	}
}

// groupOf is the group of the configuration's files. dpkg unpacks before the group is made, so that
// the script which makes it gives it the files; rpm runs one before that.
func groupOf(packager string) string {
	if packager == "deb" {
		return "root"
	}
	return "jobd"
}

// pages are README.md and the documentation, one folder of them: their links lead to where the
// packages have what they name.
func (s *staging) pages() {
	links := strings.NewReplacer("](docs/", "](", "](../README.md", "](README.md", "](../examples/", "](examples/", "](../../examples/", "](../examples/", "](../tools/", "](tools/")
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md"} {
		for _, from := range s.match(pattern) {
			s.made(docFolder+strings.TrimPrefix(from, "docs/"), []byte(links.Replace(string(s.read(from)))))
		}
	}
	for _, pattern := range []string{"docs/*.svg", "docs/*.png", "docs/*/*.dot"} {
		for _, from := range s.match(pattern) {
			s.own(docFolder+strings.TrimPrefix(from, "docs/"), from)
		}
	}
}

// papers are the licences, the changes, and the list of what is linked in.
func (s *staging) papers(arch string, programs []string, linked []module) {
	licence := s.read("LICENSE")
	var modules, texts strings.Builder
	charts := module{path: "uPlot", version: "1.6.32", licence: "MIT", text: string(s.read("cmd/internal/page/static/uPlot.LICENSE"))} // of the page
	for _, m := range append(slices.Clone(linked), charts) {
		fmt.Fprintf(&modules, "%s %s: %s\n", m.path, m.version, m.licence)
		fmt.Fprintf(&texts, "==== %s %s ====\n%s\n\n", m.path, m.version, m.text)
	}
	s.made(docFolder+"copyright", []byte(fmt.Sprintf("jobd %s\n\n%s\n%s", s.version, licence, othersNote)))
	s.made(docFolder+"third-party.txt.gz", zip([]byte(modules.String()+"\n"+texts.String())))
	s.made(docFolder+"changelog.gz", zip(s.read("CHANGELOG.md")))
	s.made(docFolder+"changelog.Debian.gz", zip(s.debianChanges())).Packager = "deb"
	s.own("/usr/share/lintian/overrides/jobd", "packaging/deb/lintian-overrides").Packager = "deb"
	list, err := s.sbom(arch, programs, linked)
	s.note(err)
	s.made(docFolder+"sbom.spdx.json", list)
	s.note(os.WriteFile(filepath.Join(s.out, s.name(arch)+".spdx.json"), list, 0o644))
}

const othersNote = `Modules of others are linked into the programs, under licences of their own. Which, and the words of
their licences and notices, is in third-party.txt.gz beside this file; sbom.spdx.json is the same for
programs.
`

// debianChanges is what Debian's tools expect to find beside the changelog: who packaged it, and when.
func (s *staging) debianChanges() []byte {
	return []byte(fmt.Sprintf("jobd (%s-%s) stable; urgency=medium\n\n  * Version %s; changelog.gz says what is new.\n\n -- %s  %s\n",
		s.version, s.release, s.version, maintainer, s.time.Format("Mon, 02 Jan 2006 15:04:05 -0700")))
}

// add puts a file into the packages.
func (s *staging) add(to, from string, mode fs.FileMode) *files.Content {
	content := &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: s.time}}
	s.contents = append(s.contents, content)
	return content
}

// own puts a file of the checkout into the packages.
func (s *staging) own(to, from string) *files.Content {
	from = filepath.Join(s.root, from)
	_, err := os.Stat(from)
	s.note(err)
	return s.add(to, from, 0o644)
}

// made puts a file into the packages that is made for them.
func (s *staging) made(to string, content []byte) *files.Content {
	at := filepath.Join(s.folder, to)
	s.note(os.MkdirAll(filepath.Dir(at), 0o755))
	s.note(os.WriteFile(at, content, 0o644))
	return s.add(to, at, 0o644)
}

// each puts the files of the checkout that match a pattern into a folder.
func (s *staging) each(pattern, folder string) {
	for _, from := range s.match(pattern) {
		s.own(folder+path.Base(from), from)
	}
}

// zipped does the same, each file compressed.
func (s *staging) zipped(pattern, folder string) {
	for _, from := range s.match(pattern) {
		s.made(folder+path.Base(from)+".gz", zip(s.read(from)))
	}
}

// tree puts a folder of the checkout, if there is one, into a folder, with all that is below.
func (s *staging) tree(from, to string) {
	base := filepath.Join(s.root, from)
	if _, err := os.Stat(base); os.IsNotExist(err) {
		return
	}
	s.note(filepath.WalkDir(base, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(base, at)
		if err != nil {
			return err
		}
		s.add(to+filepath.ToSlash(below), at, 0o644)
		return nil
	}))
}

// match tells which files of the checkout match a pattern; there is at least one.
func (s *staging) match(pattern string) []string {
	found, err := fs.Glob(os.DirFS(s.root), pattern)
	s.note(err)
	if len(found) == 0 {
		s.note(fmt.Errorf("no file matches %s", pattern))
	}
	return found
}

func (s *staging) read(from string) []byte {
	content, err := os.ReadFile(filepath.Join(s.root, from))
	s.note(err)
	return content
}

func (s *staging) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// zip compresses, and says neither when nor what.
func zip(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close()
	return out.Bytes()
}
