package page

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"jobd/cmd/internal/screen"
)

// colours are what escape sequences have set: at most one of each kind.
type colours struct {
	fore, back string // a class, or ""
	styles     []string
}

// coloured is what a job wrote, for a browser: colours and styles of terminals are classes, a line that was
// written over shows what it had at last, and all else that would steer a terminal is written out or left
// away. Only what stands in these classes gets into the page as markup.
func coloured(text string) template.HTML {
	var out strings.Builder
	var now colours
	for rest := text; rest != ""; {
		plain, sequence, after := cutEscape(rest)
		if shown := visible(plain); shown != "" {
			if class := now.class(); class != "" {
				out.WriteString(`<span class="` + class + `">` + template.HTMLEscapeString(shown) + `</span>`)
			} else {
				out.WriteString(template.HTMLEscapeString(shown))
			}
		}
		if parameters, is := strings.CutSuffix(sequence, "m"); is {
			now.set(parameters)
		}
		rest = after
	}
	return template.HTML(out.String())
}

// cutEscape cuts a text at its first control sequence (ESC [ … letter) or operating system command (ESC ] … BEL).
// The sequence is without its beginning; of commands, which are left away, it is "".
func cutEscape(text string) (plain, sequence, after string) {
	at := strings.IndexByte(text, 0x1b)
	if at < 0 || at+1 >= len(text) {
		return strings.TrimSuffix(text, "\x1b"), "", ""
	}
	plain, rest := text[:at], text[at+2:]
	switch text[at+1] {
	case '[':
		end := strings.IndexFunc(rest, func(r rune) bool { return r >= 0x40 && r <= 0x7e || r < 0x20 })
		if end < 0 {
			return plain, "", ""
		}
		if rest[end] < 0x20 { // it is broken off
			return plain, "", rest[end:]
		}
		return plain, rest[:end+1], rest[end+1:]
	case ']':
		end := strings.IndexAny(rest, "\a\x1b\n")
		if end < 0 {
			return plain, "", ""
		}
		if rest[end] == '\a' {
			end++
		}
		return plain, "", strings.TrimPrefix(rest[end:], "\x1b\\")
	}
	return plain, "", rest
}

// set takes over the parameters of a sequence that ends with m.
func (c *colours) set(parameters string) {
	list := strings.Split(strings.ReplaceAll(parameters, ":", ";"), ";")
	for i := 0; i < len(list); i++ {
		n, err := strconv.Atoi(list[i])
		switch {
		case list[i] == "", err == nil && n == 0:
			*c = colours{}
		case err != nil:
		case n == 38 || n == 48: // one of 256 colours, or of all: what is near is not worth a page's bytes
			if i+1 < len(list) && list[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		case n >= 30 && n <= 37, n >= 90 && n <= 97:
			c.fore = "f" + strconv.Itoa(n%10)
		case n >= 40 && n <= 47, n >= 100 && n <= 107:
			c.back = "b" + strconv.Itoa(n%10)
		case n == 39:
			c.fore = ""
		case n == 49:
			c.back = ""
		case n == 22:
			c.styles = slices.DeleteFunc(c.styles, func(s string) bool { return s == "a1" || s == "a2" })
		case n >= 23 && n <= 29:
			c.styles = slices.DeleteFunc(c.styles, func(s string) bool { return s == "a"+strconv.Itoa(n-20) })
		case n >= 1 && n <= 9:
			if class := "a" + strconv.Itoa(n); !slices.Contains(c.styles, class) {
				c.styles = append(c.styles, class)
			}
		}
	}
}

func (c *colours) class() string {
	return strings.Join(strings.Fields(strings.Join(append([]string{c.fore, c.back}, c.styles...), " ")), " ")
}

// visible is text as a browser may show it: lines and tabs stay, of what a carriage return has written over
// the last stays.
func visible(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		parts := strings.Split(line[strings.LastIndexByte(line, '\r')+1:], "\t")
		for n, part := range parts {
			parts[n] = screen.Clean(part)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// tail is the end of a text, of so many bytes at most, from the beginning of a line on where there is one.
func tail(text string, most int) (end string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	end = text[len(text)-most:]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	if _, lines, found := strings.Cut(end, "\n"); found && lines != "" {
		end = lines
	}
	return end, true
}
