// Package manualtest makes the manual pages in packaging/man of what --help is made of, and has tests
// fail while one of them is not current.
package manualtest

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"jobd/cmd/internal/layout"
)

// Page is a manual page.
type Page struct {
	Name     string // jobd.conf
	Section  int
	Summary  string // what it is, in a few words
	Sections []Section
}

// Section is a part of a page.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is one of: a heading below the section's, paragraphs, a list of terms, lines as they stand.
type Block struct {
	Heading string
	Text    string // paragraphs, with an empty line between two
	Terms   []layout.Term
	Lines   []string
}

// width is that of the source's lines, which people see in changes.
const width = 78

// written is the date that a page bears. It stands for the form: what the page says is as new as the
// program.
const written = "2026-11-22"

// Roff is the page for man(1).
func (p Page) Roff() []byte {
	var out strings.Builder
	out.WriteString(".\\\" Made by the tests of the programs: go test ./cmd/... -update\n")
	fmt.Fprintf(&out, ".TH %s %d %s jobd\n", quoted(strings.ToUpper(p.Name)), p.Section, written)
	out.WriteString(".ad l\n.nh\n.SH NAME\n")
	writeText(&out, p.Name+" - "+p.Summary)
	for _, s := range p.Sections {
		fmt.Fprintf(&out, ".SH %s\n", escape(strings.ToUpper(s.Title)))
		begun := true // a paragraph
		for _, b := range s.Blocks {
			begun = b.write(&out, begun)
		}
	}
	return []byte(out.String())
}

// write writes a block. Where no paragraph is begun, one begins; it reports whether one is.
func (b Block) write(out *strings.Builder, begun bool) bool {
	if b.Heading != "" {
		fmt.Fprintf(out, ".SS %s\n", quoted(b.Heading))
		begun = true
	}
	if b.Text != "" {
		for i, paragraph := range strings.Split(b.Text, "\n\n") {
			if i > 0 || !begun {
				out.WriteString(".PP\n")
			}
			writeText(out, paragraph)
		}
		begun = false
	}
	for _, t := range b.Terms {
		fmt.Fprintf(out, ".TP\n\\fB%s\\fR\n", escape(t.Name))
		writeText(out, t.Meaning)
		begun = false
	}
	if len(b.Lines) > 0 {
		if !begun {
			out.WriteString(".PP\n")
		}
		out.WriteString(".RS 4\n.nf\n")
		for _, line := range b.Lines {
			fmt.Fprintln(out, guard(escape(line)))
		}
		out.WriteString(".fi\n.RE\n")
		begun = false
	}
	return begun
}

// writeText writes a paragraph. A line that would be a request is none, and one may end behind any
// comma.
func writeText(out *strings.Builder, text string) {
	const within = "\ue000" // a comma that no blank follows
	text = commas.ReplaceAllString(text, within+"$1")
	for _, line := range layout.Wrap(text, width) {
		fmt.Fprintln(out, strings.ReplaceAll(guard(escape(line)), escape(within), `,\:`))
	}
}

// commas are those that no blank follows.
var commas = regexp.MustCompile(`,(\S)`)

// quoted is an argument of a request.
func quoted(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }

func guard(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// escape is text that stands for itself, whatever the terminal's character set is.
func escape(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			out.WriteString(`\e`)
		case r == '-':
			out.WriteString(`\-`)
		case r == '\'':
			out.WriteString(`\(aq`)
		case r == '`':
			out.WriteString(`\(ga`)
		case r == '~':
			out.WriteString(`\(ti`)
		case r == '^':
			out.WriteString(`\(ha`)
		case r >= utf8.RuneSelf:
			fmt.Fprintf(&out, `\[u%04X]`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
