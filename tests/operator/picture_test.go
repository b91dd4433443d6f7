package operator

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The picture of top in docs is what a terminal shows, with its colours: a master with two workers, a
// target that is paused, jobs that fail, and rows that wait. With -update it is drawn anew.
func TestThePictureOfTopInColours(t *testing.T) {
	t.Parallel()
	const width, height = 100, 24
	term := openTerminalWith(t, "TERM=screen", aBusyFleet(t), width, height, "--master", "top", "--interval", "500ms")
	var seen, picture string
	harness.Until(t, func() string { // one look is both: what is checked, and what is drawn
		captured := term.tmux("capture-pane", "-p", "-e")
		seen, picture = sequence.ReplaceAllString(captured, ""), drawn(captured, width, height)
		for _, text := range []string{"7 started", "3 ended", "1 failed", "running jobs: 4,", "2/2        3", "1m40s", "0/1        1", "paused", "1/2        0", "mail: claimed, and waiting for a slot: 2 jobs"} {
			if !strings.Contains(seen, text) {
				return "nobody sees " + strconv.Quote(text) + " in\n" + seen
			}
		}
		if n := strings.Count(seen, "iB\n"); n != 4 {
			return fmt.Sprintf("%d jobs tell of their memory in\n%s", n, seen)
		}
		return ""
	})
	file := filepath.Join(harness.Top(), "docs", "top.svg")
	if *update {
		must.Do(t, os.WriteFile(file, []byte(picture), 0o644))
	}
	kept := must.Get(os.ReadFile(file))(t)
	if diff := cmp.Diff(colourful(string(kept)), colourful(picture)); diff != "" {
		t.Errorf("docs/top.svg is not what top shows (-picture +now): go test ./operator -run %s -update\n%s\nnow:\n%s", t.Name(), diff, seen)
	}
}

// aBusyFleet is a master whose workers have something of everything that top shows.
func aBusyFleet(t *testing.T) *harness.Daemon {
	t.Helper()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	launcher := harness.Script(t, `
case $1 in
1|2) echo sent; exit 0;;
3) echo "smtp: connection refused" >&2; exit 3;;
esac
exec sleep 600`)
	start := func(name string, targets map[string]int) *harness.Daemon {
		return db.Worker(t, name, launcher+" {id}", targets).With(harness.MasterOf(master), harness.Settings{"prefetch": "2"}).StartWorker(t)
	}
	one := start("node-1", map[string]int{"mail": 2, "thumbs": 4})
	harness.AwaitWorkers(t, master, "", 1)
	start("node-2", map[string]int{"reports": 1, "video": 2})
	harness.AwaitWorkers(t, master, "", 2)
	if got := jobctl(t, master, "--master", "pause", "reports"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	do := func(id int64, target, status string) {
		db.Insert(t, id, target, "waiting")
		if got := jobctl(t, master, "--master", "poke", target); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		if status != "" {
			db.AwaitStatus(t, id, status)
		}
	}
	for id := int64(1); id <= 3; id++ {
		do(id, "mail", "done")
	}
	for id := int64(10); id <= 11; id++ {
		do(id, "mail", "running")
	}
	do(20, "thumbs", "running")
	do(30, "video", "running")
	for id := int64(40); id <= 44; id++ {
		db.Insert(t, id, "mail", "waiting")
	}
	poll(t, one)
	db.AwaitCount(t, 2, "status = 'accepted'")
	do(50, "reports", "")
	return master
}

// Colours are not the same on every terminal: these are legible on the dark ground of the picture.
var palette = map[int]string{
	30: "#6e7681", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#56d4dd", 37: "#c9d1d9",
	90: "#8b949e", 91: "#ffa198", 92: "#aff5b4", 93: "#f2cc60", 94: "#a5d6ff", 95: "#e2c5ff", 96: "#b3f0ff", 97: "#ffffff",
}

// What the terminal's letters look like in the picture.
const (
	ground, letters   = "#0d1117", "#c9d1d9"
	letter, tall, pad = 8.4, 18.0, 14.0
)

// style is how letters look, as escape sequences have said so far.
type style struct {
	colour              string
	bold, faint, turned bool
}

// sequence is an escape sequence that changes how letters look.
var sequence = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// drawn is a terminal as a picture: what tmux captured with its escape sequences.
func drawn(captured string, width, height int) string {
	var b strings.Builder
	w, h := float64(width)*letter+2*pad, float64(height)*tall+2*pad
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" `+
		`font-family="ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="6" fill="%s"/>`+"\n", w, h, ground)
	now := style{}
	for y, text := range strings.Split(strings.TrimRight(captured, "\n"), "\n") {
		x := 0
		for text != "" {
			at := sequence.FindStringSubmatchIndex(text)
			run := text
			if at != nil {
				run = text[:at[0]]
			}
			b.WriteString(now.drawn(run, x, y))
			x += len([]rune(run))
			if at == nil {
				break
			}
			now = now.after(text[at[2]:at[3]])
			text = text[at[1]:]
		}
	}
	return b.String() + "</svg>\n"
}

// drawn is letters in a row, from a column on.
func (s style) drawn(run string, column, row int) string {
	if strings.TrimSpace(run) == "" && !s.turned {
		return ""
	}
	colour, behind := s.colour, ""
	if colour == "" {
		colour = letters
	}
	x, y, n := pad+float64(column)*letter, pad+float64(row)*tall, float64(len([]rune(run)))
	if s.turned {
		behind = fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, n*letter, tall, colour)
		colour = ground
	}
	more := ""
	if s.bold {
		more += ` font-weight="bold"`
	}
	if s.faint {
		more += ` opacity="0.6"`
	}
	return fmt.Sprintf(`%s<text x="%.1f" y="%.1f" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>`+"\n",
		behind, x, y+13.5, n*letter, colour, more, html.EscapeString(run))
}

// after is the style when a sequence has been read.
func (s style) after(codes string) style {
	words := strings.Split(codes, ";")
	for i := 0; i < len(words); i++ {
		switch code, _ := strconv.Atoi(words[i]); {
		case code == 0:
			s = style{}
		case code == 1:
			s.bold = true
		case code == 2:
			s.faint = true
		case code == 7:
			s.turned = true
		case code == 22:
			s.bold, s.faint = false, false
		case code == 27:
			s.turned = false
		case code == 39:
			s.colour = ""
		case palette[code] != "":
			s.colour = palette[code]
		}
	}
	return s
}

// written finds the letters of the picture.
var written = regexp.MustCompile(`<text x="[0-9.]+" y="([0-9.]+)"[^>]*?fill="([^"]*)"[^>]*>([^<]*)</text>`)

// process finds what is another one's in each run, of a job that runs.
var process = regexp.MustCompile(`\b\d+ 1 TIME TIME [0-9.]+ [KM]iB`)

// colourful is what a picture says, in which colours, line by line, less what differs from run to run.
func colourful(picture string) string {
	var b strings.Builder
	row := ""
	for _, m := range written.FindAllStringSubmatch(picture, -1) {
		if m[1] != row {
			row = m[1]
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[%s] %s ", m[2], html.UnescapeString(m[3]))
	}
	return process.ReplaceAllString(masked(b.String()), "PID 1 TIME TIME SIZE")
}
