package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/exit"
	"jobd/store"
)

func TestUseColumns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want store.Uses
	}{
		"none":             {with(), nil},
		"none, as a flag":  {with("--use-columns="), nil},
		"one":              {with("--use-columns=priority"), store.Uses{"priority"}},
		"some, with blank": {with("--use-columns= run_at,planned_at ,  attempts"), store.Uses{"run_at", "planned_at", "attempts"}},
		"all":              {with("--use-columns= all "), store.TimeColumns()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, test.args, nil)
			if diff := cmp.Diff(test.want, c.time.uses); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]store.Uses{c.time.uses, c.time.uses}, []store.Uses{c.store.mysql.Uses, c.store.sqliteConfig().Uses}); diff != "" {
				t.Errorf("the stores use (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeThatIsWrong(t *testing.T) {
	t.Parallel()
	const columns = "run_at, planned_at, schedule, time_zone, attempts, max_attempts, timeout, priority, unique_key, or all"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a slip":                 {with("--use-columns=run_at,planed_at"), `flag --use-columns: use_columns: "planed_at" is no optional column of jobd's; allowed are ` + columns + `; the nearest known one is planned_at`},
		"capitals":               {with("--use-columns=Run_At"), `"Run_At" is no optional column of jobd's; allowed are ` + columns + `; the nearest known one is run_at`},
		"a column of all tables": {with("--use-columns=status"), `"status" is no optional column of jobd's; allowed are ` + columns},
		"several":                {with("--use-columns=foo,run_at,bar"), "\"foo\" is no optional column of jobd's; allowed are " + columns + "\nflag --use-columns: use_columns: \"bar\""},
		"an empty name":          {with("--use-columns=run_at,"), `use_columns: "" is no optional column of jobd's`},
		"blanks between":         {with("--use-columns=run_at planned_at"), `"run_at planned_at" is no optional column`},
		"twice":                  {with("--use-columns=run_at,priority,run_at"), `use_columns: "run_at" stands there twice; allowed is each once`},
		"all and more":           {with("--use-columns=run_at,all"), `use_columns: "all" is no optional column of jobd's`},
		"more than there are":    {with("--use-columns=" + strings.Repeat("run_at,", 100)), `use_columns: "run_at" stands there twice`},
		"companions":             {with("--use-columns=priority,schedule"), "use_columns: schedule needs run_at, planned_at, attempts; allowed is a list that has them, or all"},
		"the claim's column":     {with("--use-columns=unique_key", "--claim-column=unique_key"), `flag --claim-column: claim_column: "unique_key" is not allowed: use_columns has it, too; allowed is sig, or a column of its own`},
		"Local":                  {with("--time-zone=Local"), `flag --time-zone: time_zone: "Local": it differs from host to host: write a name of the tz database, as Europe/Berlin, or UTC`},
		"an offset":              {with("--time-zone=+02:00"), `time_zone: "+02:00" is not known: write a name of the tz database, as Europe/Berlin, or UTC`},
		"an unknown zone":        {with("--time-zone=Europe/Atlantis"), `time_zone: "Europe/Atlantis" is not known: write a name of the tz database, as Europe/Berlin, or UTC`},
		"a zone in small":        {with("--time-zone=europe/berlin"), `time_zone: "europe/berlin" is not known: write a name of the tz database, as Europe/Berlin, or UTC`},
		"no zone":                {with("--time-zone="), "time_zone: the time zone is empty: write a name of the tz database"},
		"a password as a zone":   {with("--time-zone=hunter2", "--password=hunter2"), "time_zone: its value is not allowed; allowed is a name of the tz database, as Europe/Berlin, or UTC"},
		"missed":                 {with("--missed=never"), `flag --missed: missed: "never" is not allowed; allowed is one of: once, skip`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, test.args, test.want)
		})
	}
}

// refused expects an error of the configuration.
func refused(t *testing.T, args []string, want string) {
	t.Helper()
	_, err := parseConfig(args, nil, t.Output())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if code := exit.Code(err); code != exit.Usage {
		t.Errorf("exit code %d, want %d", code, exit.Usage)
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password is told: %v", err)
	}
}

func TestTimeZoneAndMissed(t *testing.T) {
	t.Parallel()
	c := mustParse(t, with("--use-columns=all", "--time-zone=Europe/Berlin", "--missed=skip"), nil)
	if c.time.location.String() != "Europe/Berlin" || !c.time.skipMissed || len(c.Warnings) > 0 {
		t.Errorf("read as %+v; warnings %q", c.time, c.Warnings)
	}
}

// The place of a list in a file is told, too.
func TestUseColumnsInAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.conf")
	if err := os.WriteFile(path, []byte("; time\nuse_columns = run_at, planed_at\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := parseConfig([]string{"--config", path, "--host=127.0.0.1", "--port=0", "--store=sqlite", "--sqlite-path=x", "--launcher=run {id}", "--targets.a=1"}, nil, t.Output())
	if err == nil || !strings.Contains(err.Error(), path+`:2: use_columns: "planed_at" is no`) || errors.Unwrap(err) == nil {
		t.Errorf("error %v", err)
	}
}
