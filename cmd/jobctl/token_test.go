package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// A new token is known by the line that is printed beside it, and what it may do is told to whoever has it. No
// daemon is asked.
func TestTokenIsMadeAndChecked(t *testing.T) {
	t.Parallel()
	nobody := []string{"JOBCTL_PORT=1"}                                                                 // no daemon is there
	expires := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).AddDate(0, 0, 36500).Format(time.RFC3339) // jobctl's today, and so long
	made := jobctl{environ: nobody}.run(t, "token", "new", "shop", "--scope", "run", "--targets", "mail,reports/*", "--expires", "36500d")
	lines := strings.Split(made.out, "\n")
	if made.code != 0 || len(lines) != 8 || !strings.Contains(lines[0], "for the client") || !strings.Contains(lines[4], "principals_file") {
		t.Fatalf("%+v", made)
	}
	token, line := lines[2], lines[6]
	words := strings.Fields(line)
	if !strings.HasPrefix(token, "jobd_shop_") || len(words) != 5 || words[4] != "expires="+expires || strings.Count(made.out, token) != 1 {
		t.Errorf("%+v", made)
	}
	if dated := (jobctl{}).run(t, "token", "new", "shop", "--scope", "run", "--targets", "mail", "--expires", "2027-01-01"); !strings.Contains(dated.out, "  expires=2027-01-01T00:00:00Z") {
		t.Errorf("until a day: %+v", dated)
	}
	if again := (jobctl{}).run(t, "token", "new", "shop", "--scope", "run", "--targets", "mail"); strings.Contains(again.out, token) || strings.Contains(again.out, "expires") {
		t.Errorf("%+v", again)
	}
	form := jobctl{stdin: token + "\n", environ: nobody}.run(t, "token", "check")
	if form.code != 0 || !strings.HasSuffix(form.out, ":\n\n"+words[3]+"\n") || strings.Contains(form.out, token) {
		t.Errorf("without a file: %+v", form)
	}
	file := principalsFile(t, "# ours\n"+line+"\n")
	check := []string{"token", "check", "--file", file}
	want := "name     shop\nscope    run\ntargets  mail,reports/*\nexpires  " + expires + "\n"
	if got := (jobctl{stdin: " " + token + "\r\n", environ: nobody}).run(t, check...); got != (output{out: want}) {
		t.Errorf("got %+v, want %s", got, want)
	}
	got := jobctl{stdin: token}.run(t, append(check, "--output", "json")...)
	var told map[string]string
	if err := json.Unmarshal([]byte(got.out), &told); err != nil || got.code != 0 || told["name"] != "shop" || told["scope"] != "run" ||
		told["targets"] != "mail,reports/*" || told["expires"] != expires || told["credential"] != words[3] || told["token"] != "" {
		t.Errorf("%+v: %v", got, err)
	}
	// What is no token, or of no line, or of one that can't be used, fails, and nothing of it is told.
	other := jobctl{}.run(t, "token", "new", "shop", "--scope", "run", "--targets", "*", "--output", "json")
	if err := json.Unmarshal([]byte(other.out), &told); err != nil || !strings.HasPrefix(told["token"], "jobd_shop_") || !strings.HasPrefix(told["line"], "shop  run  *  token:sha256:") {
		t.Errorf("%+v: %v", other, err)
	}
	open := principalsFile(t, line+"\n")
	must.Do(t, os.Chmod(open, 0o644))
	for _, test := range []struct{ stdin, file, want string }{
		{"s3cret-word", file, "that is no token"},
		{token[:20], file, "that is no token"},
		{words[3], file, "that is no token"},
		{told["token"], file, "no line has this token's digest, or it has expired: token:sha256:"},
		{token, principalsFile(t, "shop run mail "+words[3]+" expires=2026-01-01\n"), "or it has expired"},
		{token, principalsFile(t, line+"\nshop run mail "+token+"\n"), "line 2: not a token's digest"},
		{token, open, "others may read or write it"},
		{token, file + ".old", "no such file"},
		{"", file, "read token from stdin: EOF"},
	} {
		got := jobctl{stdin: test.stdin}.run(t, "token", "check", "--file", test.file)
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, test.want) || test.stdin != "" && strings.Contains(got.err, test.stdin) && test.stdin != words[3] {
			t.Errorf("%s in %s: %+v, want %s", test.stdin, test.file, got, test.want)
		}
	}
}

// principalsFile is a file of principals.
func principalsFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "principals")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// What would make no line is refused, before there is a token.
func TestTokenRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"new":                                        "needs a name, --scope and --targets, as in: jobctl token new shop",
		"new a b --scope run --targets *":            "needs a name, --scope and --targets",
		"new a --scope run":                          "needs a name, --scope and --targets",
		"new a --targets *":                          "needs a name, --scope and --targets",
		"new ä --scope run --targets *":              `token new: "ä" is not a name; allowed are 1 to 64 of`,
		"new password --scope run --targets *":       "save the word password",
		"new a --scope all --targets *":              `--scope: "all" is not allowed; allowed are: status, read, submit, run, admin, worker`,
		"new a --scope run --targets ma*":            `token new: --targets: "ma*" is not a list of targets; allowed are`,
		"new a --scope run --targets * --expires 1s": `--expires: "1s" is not allowed`,
		"check jobd_a_x":                             "token check: takes no arguments",
		"":                                           "a command is missing",
	} {
		got := jobctl{}.run(t, append([]string{"token"}, strings.Fields(args)...)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
}

// Each scope that is offered makes a line that a daemon takes.
func TestTokenOfEachScope(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"status", "read", "submit", "run", "admin", "worker"} {
		var form tokenForm
		made := jobctl{}.run(t, "token", "new", "a", "--scope", scope, "--targets", "mail", "--output", "json")
		if err := json.Unmarshal([]byte(made.out), &form); err != nil {
			t.Fatalf("%+v: %v", made, err)
		}
		if got := (jobctl{stdin: form.Token}).run(t, "token", "check", "--file", principalsFile(t, form.Line+"\n")); !strings.Contains(got.out, "scope    "+scope+"\ntargets  mail\nexpires  never\n") {
			t.Errorf("%+v", got)
		}
	}
}
