package conf_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/conf"
	"jobd/store/storetest/must"
)

// The chosen section counts before the keys above all sections, of which the own keys don't count at
// all; other sections are nobody's business.
func TestProfilesOfAFile(t *testing.T) {
	t.Parallel()
	const content = "host = above\nport = 1\nwait = 5\npassword = \"p w\"\n[a]\nhost = of-a\nwait = 7\nhots = x\n[b]\nport = 2\nnonsense\nport = zero\n[ c d ]\nport = x\n[a]\nport = 3\n"
	path := filepath.Join(t.TempDir(), "f.conf")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	type read struct {
		Host, Password string
		Port           int
		Wait           time.Duration
	}
	for profile, test := range map[string]struct {
		want     read
		warnings []string
		err      string
	}{
		"":    {want: read{"above", "p w", 1, 5 * time.Second}},
		"a":   {want: read{Host: "of-a", Port: 3, Wait: 7 * time.Second}, warnings: []string{path + ":8: unknown key hots is not used; the nearest known one is host"}},
		"c d": {want: read{Host: "none", Wait: 5 * time.Second}, err: path + `:14: port: "x" is not allowed; allowed is a whole number from 1 to 9`},
		"d":   {want: read{Host: "none", Wait: 5 * time.Second}, err: "there is no profile @d in " + path + "; there are: @a, @b, @c d"},
		"bb":  {want: read{Host: "none", Wait: 5 * time.Second}, err: "there is no profile @bb in " + path + "; the nearest known one is @b; there are: @a, @b, @c d"},
	} {
		var got read
		set := conf.New(conf.Program{Name: "testctl", Prefix: "TESTCTL_", File: path})
		set.AddProfiles("host", "port", "password")
		set.Add("host", "none", "", conf.Text(&got.Host))
		set.Add("port", "", "", conf.Int(&got.Port, 1, 9))
		set.Add("wait", "", "", conf.Duration(&got.Wait, 0))
		set.Add("password", "", "", conf.Text(&got.Password)).Secret()
		set.Choose(profile)
		must.Do(t, set.Parse(nil, nil, t.Output()))
		err := ""
		if set.Err() != nil {
			err = set.Err().Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != test.err || !slices.Equal(set.Warnings(), test.warnings) {
			t.Errorf("profile %q: error %q, want %q; warnings %q, want %q; (-want +got):\n%s", profile, err, test.err, set.Warnings(), test.warnings, diff)
		}
		if got := strings.Join(set.Profiles(), "|"); got != "a|b|c d" || set.Profile() != profile {
			t.Errorf("profiles %s, chosen %s", got, set.Profile())
		}
	}
}
