package main

import (
	"strings"
	"testing"
)

// Regression: a claim_column that is another column of jobd's was taken, and claims wrote their
// tokens over its values.
func TestAClaimColumnThatHoldsSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	mysql := with("--store=mysql", "--mysql-host=/run/mysqld/mysqld.sock", "--mysql-user=u", "--mysql-password=", "--mysql-database=d")
	for _, args := range [][]string{with(), mysql} {
		for _, column := range []string{
			"id", "target", "time_created", "time_started", "time_finished", "status", "result", "return_code", "stdout", "stderr", "TARGET", "Return_Code",
		} {
			_, err := parseConfig(append(args[:len(args):len(args)], "--claim-column="+column), nil, t.Output())
			want := `flag --claim-column: claim_column: "` + column + `" is not allowed: the column holds something else; allowed is sig, or a column of its own`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", column, err, want)
			}
		}
		for _, column := range []string{"sig", "SIG", "claimed_by"} {
			if _, err := parseConfig(append(args[:len(args):len(args)], "--claim-column="+column), nil, t.Output()); err != nil {
				t.Errorf("%s: %v", column, err)
			}
		}
	}
}
