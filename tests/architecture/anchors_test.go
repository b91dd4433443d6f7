package architecture

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// A link that names a part of a page leads to a heading of that name.
func TestDocumentationLinksLeadToHeadings(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	seen := 0
	for name, content := range texts {
		for _, match := range link.FindAllStringSubmatch(withoutCode(content), -1) {
			target, anchor, named := strings.Cut(match[1], "#")
			if !named || strings.Contains(target, "://") || (target != "" && filepath.Ext(target) != ".md") {
				continue
			}
			page := name
			if target != "" {
				page = filepath.Join(filepath.Dir(name), target)
			}
			seen++
			if !anchors(texts[page])[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", name, match[1], page)
			}
		}
	}
	if seen == 0 {
		t.Error("no link with a heading was found: this test looks for the wrong thing")
	}
}

// anchors are the names that links have for a page's headings, as GitHub makes them: small letters,
// digits, hyphens for blanks, and a number where a heading is not the first of its name.
func anchors(content string) map[string]bool {
	names, times := map[string]bool{}, map[string]int{}
	for line := range strings.Lines(withoutCode(content)) {
		heading := strings.TrimLeft(line, "#")
		if len(heading) == len(line) || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := anchor(heading)
		if n := times[name]; n > 0 {
			names[fmt.Sprintf("%s-%d", name, n)] = true
		}
		times[name]++
		names[name] = true
	}
	return names
}

func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(link.ReplaceAllString(heading, "]")))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return r
		}
		return -1
	}, heading)
}

// withoutCode is a page without its fenced blocks: what looks like a heading or a link there is none.
func withoutCode(content string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(content) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"## To add …": "to-add-", "### 48. A web page's request is executed": "48-a-web-pages-request-is-executed",
		"## `status`, and [why](#x)": "status-and-why",
	} {
		if got := anchor(strings.TrimLeft(heading, "#")); got != want {
			t.Errorf("%s is %s, want %s", heading, got, want)
		}
	}
	if got := anchors("# A\n```\n# no\n```\n## A\n"); !got["a"] || !got["a-1"] || got["no"] {
		t.Errorf("anchors are %v", got)
	}
}
