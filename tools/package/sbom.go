package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that are told. Names of members are the standard's.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicence   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Files         []spdxFile         `json:"files"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Version   string         `json:"versionInfo"`
		Location  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Concluded string         `json:"licenseConcluded"`
		Declared  string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Purpose   string         `json:"primaryPackagePurpose"`
		Source    string         `json:"sourceInfo,omitempty"`
		Checksums []spdxChecksum `json:"checksums,omitempty"`
		Refs      []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxFile struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"fileName"`
		Types     []string       `json:"fileTypes"`
		Checksums []spdxChecksum `json:"checksums"`
		Concluded string         `json:"licenseConcluded"`
		Copyright string         `json:"copyrightText"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const (
	noAssertion  = "NOASSERTION"
	ownReference = "SPDXRef-jobd"
)

// sbom lists what is in the programs: each module that is linked in, with its version, its licence and
// the sum that go.sum has of it, and Go itself.
func (o order) sbom(arch string, programs []string, linked []module) ([]byte, error) {
	document := spdxDocument{
		Version: "SPDX-2.3", DataLicence: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:          fmt.Sprintf("jobd-%s-linux-%s", o.version, arch),
		Creation:      spdxCreation{Created: o.time.Format(time.RFC3339), Creators: []string{"Tool: jobd/tools/package"}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", ownReference}},
		Packages: []spdxPackage{{
			ID: ownReference, Name: "jobd", Version: o.version, Location: noAssertion, Concluded: "MIT", Declared: "MIT",
			Copyright: "The jobd authors", Purpose: "APPLICATION", Source: "commit " + orUnknown(o.commit),
		}},
	}
	for i, m := range linked {
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		document.Packages = append(document.Packages, describe(id, m))
		document.Relationships = append(document.Relationships, spdxRelationship{ownReference, "STATIC_LINK", id})
	}
	for _, path := range programs {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		short, long := sha1.Sum(content), sha256.Sum256(content)
		id := "SPDXRef-program-" + filepath.Base(path)
		document.Files = append(document.Files, spdxFile{
			ID: id, Name: "./usr/bin/" + filepath.Base(path), Types: []string{"BINARY"}, Concluded: noAssertion, Copyright: noAssertion,
			Checksums: []spdxChecksum{{"SHA1", hex.EncodeToString(short[:])}, {"SHA256", hex.EncodeToString(long[:])}},
		})
		document.Relationships = append(document.Relationships, spdxRelationship{ownReference, "CONTAINS", id})
	}
	// A document's namespace is its own: what is in it names it.
	content, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	document.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/%s-%x", document.Name, sha256.Sum256(content))
	content, err = json.MarshalIndent(document, "", " ")
	return append(content, '\n'), err
}

// describe is a module as SPDX has it.
func describe(id string, m module) spdxPackage {
	p := spdxPackage{
		ID: id, Name: m.path, Version: m.version, Location: "https://proxy.golang.org/" + m.path, Concluded: noAssertion,
		Declared: m.licence, Copyright: noAssertion, Purpose: "LIBRARY",
		Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.path + "@" + m.version}},
	}
	if m.path == "std" {
		p.Name, p.Location = "Go standard library", "https://go.dev/dl/"
		p.Refs[0].Locator = "pkg:golang/stdlib@" + strings.TrimPrefix(m.version, "go")
	}
	if sum, found := strings.CutPrefix(m.sum, "h1:"); found {
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			p.Source = "go.sum has " + m.sum
			p.Checksums = []spdxChecksum{{"SHA256", hex.EncodeToString(raw)}}
		}
	}
	return p
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
