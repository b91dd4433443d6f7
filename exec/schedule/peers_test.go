package schedule_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/exec/schedule"
	"jobd/store/storetest/must"
)

// Away from changes of clocks all programs should agree on what a schedule means. Near them each
// has its own ways, so what is planned within a day and a half of one isn't compared.
const near = 36 * 3600

// question is what another program is asked: the first runs of a plan after a moment.
type question struct {
	plan  *plan
	s     *schedule.Schedule
	zone  *time.Location
	After int64  `json:"after"`
	Text  string `json:"text"` // in the form of that program
	Zone  string `json:"zone"`
}

// questions are some for which a plan has a form that another program reads.
func questions(t *testing.T, form func(*plan) string) []question {
	t.Helper()
	howMany := 40
	if long() {
		howMany = 5000
	}
	var all []question
	seed := rapid.Custom(func(t *rapid.T) question {
		zone := rapid.SampledFrom([]string{
			"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago", "Asia/Gaza",
			"Pacific/Chatham", "America/St_Johns", "Africa/Casablanca", "Antarctica/Troll",
		}).Draw(t, "zone")
		return question{plan: drawPlan(t), Zone: zone}
	})
	moments := rand.New(rand.NewPCG(1, 2))
	for i := 0; len(all) < howMany; i++ {
		q := seed.Example(i)
		if q.Text = form(q.plan); q.Text == "" {
			continue
		}
		s, err := schedule.Parse(q.plan.text)
		if err != nil {
			continue // a date that never comes
		}
		q.s, q.zone = s, load(t, q.Zone)
		q.After = fromYear + moments.Int64N(toYear-fromYear)
		all = append(all, q)
	}
	return all
}

// agree holds what another program plans against what is planned here, as far as it should agree, and
// counts what was compared.
func (q question) agree(t *testing.T, theirs []int64, should func(moment int64) bool) int {
	t.Helper()
	if len(theirs) == 0 {
		t.Errorf("%s in %s after %d: the other program, which reads %s, plans nothing", q.s, q.Zone, q.After, q.Text)
		return 0
	}
	until := theirs[len(theirs)-1]
	var ours []int64
	for moment := q.s.Next(q.After, q.zone); moment != 0 && moment <= until; moment = q.s.Next(moment, q.zone) {
		ours = append(ours, moment)
	}
	shouldNot := func(moment int64) bool { return moment >= beyond || !should(moment) } // nothing is planned here beyond
	ours, theirs = slices.DeleteFunc(ours, shouldNot), slices.DeleteFunc(theirs, shouldNot)
	if !slices.Equal(ours, theirs) {
		t.Errorf("%s in %s after %s: planned is\n%s, and for the other program, which reads %s,\n%s", q.s, q.Zone,
			written(q.zone, q.After), written(q.zone, ours[:min(len(ours), 25)]...), q.Text, written(q.zone, theirs...))
	}
	return len(ours)
}

// away reports whether the clocks don't change near a moment.
func (q question) away(moment int64) bool {
	_, before := time.Unix(moment-near, 0).In(q.zone).Zone()
	_, behind := time.Unix(moment+near, 0).In(q.zone).Zone()
	return before == behind
}

func TestTheSameAsSystemdAwayFromChanges(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is missing: make deps installs it")
	}
	compared := 0
	for _, q := range questions(t, func(p *plan) string { return p.systemd }) {
		cmd := exec.Command("systemd-analyze", "calendar", "--iterations=25",
			"--base-time="+time.Unix(q.After, 0).UTC().Format("2006-01-02 15:04:05 UTC"), q.Text+" "+q.Zone)
		cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		var theirs []int64
		for line := range strings.Lines(string(out)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if name != "Next elapse" && !strings.HasPrefix(name, "Iter. #") && !strings.HasPrefix(name, "Iteration #") || value == "never" {
				continue
			}
			at, err := time.Parse("Mon 2006-01-02 15:04:05 UTC", strings.TrimSpace(value))
			if err != nil {
				t.Fatalf("%s says %q: %v", cmd, line, err)
			}
			theirs = append(theirs, at.Unix())
		}
		compared += q.agree(t, theirs, q.away)
	}
	t.Logf("%d planned times were compared", compared)
}

// croniter asks Python's croniter.
const croniter = `
import croniter, datetime, json, sys, zoneinfo
for q in json.load(sys.stdin):
    zone = zoneinfo.ZoneInfo(q["zone"])
    runs = croniter.croniter(q["text"], datetime.datetime.fromtimestamp(q["after"], zone))
    try:
        print(json.dumps([int(runs.get_next(float)) for _ in range(25)]))
    except croniter.CroniterBadDateError as e:
        sys.exit(f"{q}: {e}")
`

func TestTheSameAsCroniterAwayFromChanges(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "croniter")
	all := questions(t, func(p *plan) string { return p.cron })
	asked := must.Get(json.Marshal(all))(t)
	cmd := exec.Command(python, "-c", croniter)
	cmd.Stdin = bytes.NewReader(asked)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	compared := 0
	for _, q := range all {
		var theirs []int64
		must.Do(t, answers.Decode(&theirs))
		// Its first step over a change, from wherever and however far, goes wrong: such steps aren't compared.
		_, offset := time.Unix(q.After, 0).In(q.zone).Zone()
		compared += q.agree(t, theirs, func(moment int64) bool {
			_, then := time.Unix(moment+near, 0).In(q.zone).Zone()
			return then == offset && moment < q.After+100*day // with two changes in between it would be the same again
		})
	}
	t.Logf("%d planned times were compared", compared)
}

// pythonWith is a Python that has a module: Debian's, where another one comes first in PATH.
func pythonWith(t *testing.T, module string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import "+module).Run() == nil {
			return python
		}
	}
	t.Skip("python3-" + module + " is missing: make deps installs it")
	return ""
}
