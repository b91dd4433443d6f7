package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// TestPictures takes the pictures of the documentation, of two minutes' work, where PICTURES says in which folder.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PICTURES")
	if dir == "" {
		t.Skip("PICTURES is not set")
	}
	s := newSiteOf(t, harness.Script(t, `case $(($1 % 23)) in
0) printf 'connecting to \033[36mpayments\033[0m\n'; echo "no route to payments" >&2; exit 75 ;;
1) printf '\033[1mimport of customers\033[0m\n'; for i in 1 2 3 4 5 6 7 8; do printf 'row %d \033[32mok\033[0m\n' $i; sleep 0.$i; done ;;
*) sleep 0.$(($1 % 9)); echo "sent to customer $1" ;;
esac`), map[string]int{"mail": 3, "reports/daily": 1, "import": 2})
	targets := []string{"mail", "mail", "mail", "import", "reports/daily", "mail"}
	next := time.NewTicker(150 * time.Millisecond)
	defer next.Stop()
	for id := range int64(800) {
		s.insert(t, id+1, targets[id%int64(len(targets))])
		<-next.C
	}
	ctx := browser(t)
	signIn(t, ctx, s.master)
	s.ask(t, "pause", "reports/daily")
	s.db.Exec(t, `INSERT INTO jobs (id, target, time_created, status)
		SELECT 1000 + id, target, UNIX_TIMESTAMP() - id % 300, 'waiting' FROM jobs WHERE id <= 300`) // what waits is in the picture, too
	s.ask(t, "poke", "mail", "import")
	for _, of := range [][2]string{{"overview", "/"}, {"timeline", "/timeline?span=5m"}, {"job", "/jobs/760"}} {
		name, path := of[0], of[1]
		var picture []byte
		actions := []chromedp.Action{screenOf(1280, 800, false), chromedp.Navigate("http://" + s.master + path), chromedp.WaitReady("footer")}
		if name == "overview" {
			actions = append(actions, chromedp.WaitVisible(".chart canvas"))
		}
		must.Do(t, chromedp.Run(ctx, append(actions, chromedp.CaptureScreenshot(&picture))...))
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("page-%s.png", name)), picture, 0o644))
	}
}
