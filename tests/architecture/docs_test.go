package architecture

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// fewestWords is what a package's doc comment needs to say more than its name.
const fewestWords = 8

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	type doc struct{ text, name string }
	docs := map[string]doc{}
	for _, f := range sources(t) {
		name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		d := docs[f.folder()]
		d.name = name
		if f.syntax.Doc != nil {
			if d.text != "" {
				t.Errorf("%s: the package has a second doc comment; one place is enough", f.path)
			}
			d.text = f.syntax.Doc.Text()
		}
		docs[f.folder()] = d
	}
	for folder, d := range docs {
		openings := []string{"Package " + d.name + " "}
		if d.name == "main" {
			command := path.Base(folder)
			openings = []string{"Command " + command + " ", strings.ToUpper(command[:1]) + command[1:] + " "}
		}
		text := strings.ReplaceAll(d.text, "\n", " ")
		opens := slices.ContainsFunc(openings, func(opening string) bool { return strings.HasPrefix(text, opening) })
		switch {
		case d.text == "":
			t.Errorf("%s: package %s has no doc comment", folder, d.name)
		case !opens:
			t.Errorf("%s: the doc comment does not begin with one of %q", folder, openings)
		case len(strings.Fields(d.text)) < fewestWords:
			t.Errorf("%s: the doc comment says too little: %q", folder, d.text)
		}
	}
}
