package conf_test

import (
	"io"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
)

// Words of the command line may be passwords.
func TestPasswordsOnTheCommandLineAreNotTold(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"password=Zq7SECRET"},
		{"--password=Zq7SECRET", "Zq7SECRET"},
		{"--password=hunter", "hunter"},
		{"-pZq7SECRET"},
		{"-phunter"},
		{"--Zq7SECRET"},
		{"Zq7SECRET"},
		{"--", "-pZq7SECRET"},
		{"--launcher.env.Zq7SECRET"},
	} {
		set, _ := newSet("")
		err := set.Parse(args, nil, io.Discard)
		if err == nil || exit.Code(err) != exit.Usage || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v, want exit code 2 and nothing of a password", args, err)
		}
	}
}
