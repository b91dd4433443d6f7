package index

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"jobd/journal"
)

// The bounds of words.
const (
	tailBytes   = 2 << 10 // of each stream
	longestWord = 40      // bytes; what is longer is cut, here and where it is looked for
	mostWords   = 16      // that are looked for at once
	leastPrefix = 3       // bytes of a word's beginning
)

// colours are what terminals take for commands.
var colours = regexp.MustCompile(`\x1b\[[0-9;:?]*[ -/]*[@-~]`)

// wordsOf gives what is looked for in a job that has ended.
func wordsOf(target string, done *journal.Done) string {
	var b strings.Builder
	for _, text := range []string{target, done.Signal, done.Reason, done.Note, tail(done.Stdout.Kept), tail(done.Stderr.Kept)} {
		eachWord(text, func(word string, _ bool) {
			b.WriteString(word)
			b.WriteByte(' ')
		})
	}
	return b.String()
}

// tail is the end of an output, without colours; a word that it begins with may be the end of one.
func tail(output []byte) string {
	output = output[max(0, len(output)-tailBytes):]
	if bytes.IndexByte(output, 0x1b) >= 0 {
		output = colours.ReplaceAll(output, nil)
	}
	return string(output)
}

// eachWord gives the words of a text: runs of letters and digits, in small letters. starred: a * stands behind it.
// SQLite is given nothing else, so that it can't take a text for anything but words.
func eachWord(text string, use func(word string, starred bool)) {
	begin := -1
	end := func(at int) {
		if begin >= 0 {
			word := strings.ToLower(text[begin:at])
			cut := word[:min(len(word), longestWord)]
			for len(cut) > 0 && !utf8.ValidString(cut) {
				cut = cut[:len(cut)-1]
			}
			if cut != "" {
				use(cut, at < len(text) && text[at] == '*')
			}
		}
		begin = -1
	}
	for i, r := range text {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) {
			if begin < 0 {
				begin = i
			}
		} else {
			end(i)
		}
	}
	end(len(text))
}

// match is a text as FTS5 looks for it: all its words, each quoted; "" where it has none. A beginning that is too
// short is looked for as a word.
func match(text string) string {
	var terms []string
	eachWord(text, func(word string, starred bool) {
		if len(terms) == mostWords {
			return
		}
		term := `"` + word + `"`
		if starred && len(word) >= leastPrefix {
			term += "*"
		}
		terms = append(terms, term)
	})
	return strings.Join(terms, " AND ")
}
