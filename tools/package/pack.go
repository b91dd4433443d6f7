package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // known to nfpm.Get from here
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // likewise
)

const maintainer = "The jobd authors <jobd@localhost.localdomain>"

// name is how the files of one architecture begin that are no packages of a system.
func (o order) name(arch string) string { return fmt.Sprintf("jobd-%s-linux-%s", o.version, arch) }

// pack makes the packages of one architecture, and tells the names of all files that are there then.
func (o order) pack(arch string, contents files.Contents) ([]string, error) {
	made := []string{o.name(arch) + ".spdx.json"}
	for _, format := range o.formats {
		if format == "tar" {
			continue
		}
		name, err := o.system(format, arch, contents)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		made = append(made, name)
	}
	if !slices.Contains(o.formats, "tar") {
		return made, nil
	}
	archive, err := o.archive(arch, contents)
	if err != nil {
		return nil, err
	}
	name := o.name(arch) + ".tar.gz"
	return append(made, name), os.WriteFile(filepath.Join(o.out, name), archive, 0o644)
}

// system makes a package for a system's own installer.
func (o order) system(format, arch string, contents files.Contents) (string, error) {
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	script := func(name string) string { return filepath.Join(o.root, "packaging", format, name) }
	info := &nfpm.Info{
		Name: "jobd", Arch: arch, Platform: "linux", Version: o.version, Release: o.release, Section: "admin",
		Maintainer: maintainer, License: "MIT", MTime: o.time, DisableGlobbing: true, Description: description,
		Overridables: nfpm.Overridables{Contents: contents, Umask: 0o022},
	}
	info.RPM.BuildHost, info.RPM.Summary = "localhost", summary
	info.RPM.Compression, info.Deb.Compression = "gzip:6", "gzip:6" // quick to make, and read by all that read packages
	switch format {
	case "deb":
		info.Depends = []string{"passwd"}
		info.Recommends = []string{"systemd"}
		info.Scripts = nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")}
	case "rpm":
		info.Depends = []string{"/usr/sbin/useradd"}
		info.Scripts = nfpm.Scripts{
			PreInstall: script("pre.sh"), PostInstall: script("post.sh"), PreRemove: script("preun.sh"), PostRemove: script("postun.sh"),
		}
	}
	info = nfpm.WithDefaults(info)
	name := packager.ConventionalFileName(info)
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(o.out, name), out.Bytes(), 0o644)
}

const (
	summary     = "runs the jobs that an application writes into its own MySQL table"
	description = summary + `
The application inserts a row and says poke; a worker claims the row, runs a
command with the row's id, and writes status, result and output back into the
same row. Each step is in a local, append-only, hash-chained journal before it
has any effect. In this package are the worker jobd, the optional master
jobd-master, and jobctl for operators.`
)

// archive makes a .tar.gz with all that is not for one sort of package only, below one folder.
func (o order) archive(arch string, contents files.Contents) ([]byte, error) {
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	sorted := slices.SortedFunc(slices.Values(contents), func(a, b *files.Content) int { return strings.Compare(a.Destination, b.Destination) })
	for _, content := range sorted {
		if content.Packager != "" && content.Packager != "tar" {
			continue
		}
		if err := o.archiveFile(w, o.name(arch)+content.Destination, content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := packed.Close()
	return out.Bytes(), err
}

func (o order) archiveFile(w *tar.Writer, name string, content *files.Content) error {
	body, err := os.ReadFile(content.Source)
	if err != nil {
		return err
	}
	err = w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(body)), Mode: int64(content.FileInfo.Mode),
		ModTime: o.time, Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// sums writes SHA256SUMS, which sha256sum --check reads, and prints it.
func (o order) sums(made []string) error {
	slices.Sort(made)
	var list strings.Builder
	for _, name := range made {
		content, err := os.ReadFile(filepath.Join(o.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(content), name)
	}
	if _, err := io.WriteString(os.Stdout, list.String()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), []byte(list.String()), 0o644)
}
