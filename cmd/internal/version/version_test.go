package version

import (
	"runtime/debug"
	"testing"

	"jobd/store/storetest/check"
)

func TestNoted(t *testing.T) {
	t.Parallel()
	revision, at := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}, debug.BuildSetting{Key: "vcs.time", Value: "2026-11-20T14:00:00Z"}
	for name, c := range map[string]struct {
		settings     []debug.BuildSetting
		commit, date string
	}{
		"nothing":  {nil, "", ""},
		"clean":    {[]debug.BuildSetting{revision, at, {Key: "vcs.modified", Value: "false"}}, "abc", "2026-11-20T14:00:00Z"},
		"modified": {[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, at, revision}, "abc-modified", "2026-11-20T14:00:00Z"},
		"no git":   {[]debug.BuildSetting{{Key: "-trimpath", Value: "true"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if commit, date := noted(c.settings); commit != c.commit || date != c.date {
				t.Errorf("commit %q of %q, want %q of %q", commit, date, c.commit, c.date)
			}
		})
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	got := Build{Version: "1.2.3", Commit: "abc", Date: orUnknown(""), compiler: "go1.26.0", platform: "linux/arm64"}.Text("jobd")
	const want = "jobd 1.2.3\ncommit: abc\ndate: unknown\nbuilt with: go1.26.0 for linux/arm64"
	check.Equal(t, got, want, "printed")
}
