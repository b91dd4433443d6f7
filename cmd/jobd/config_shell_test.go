package main

import (
	"strings"
	"testing"
)

// No shell reads the launcher: what only a shell understands is a warning, and what a program may
// well take is none.
func TestWordsOfAShellAreWarnedOf(t *testing.T) {
	t.Parallel()
	const quotes = "the quotes in it are part of what the command gets"
	gets := func(operator string) string { return "so the command gets " + operator + " as an argument" }
	for launcher, want := range map[string]string{
		"php job.php {id} > /dev/null 2>&1":             gets(">"),
		"php job.php {id} >>/var/log/jobs":              gets(">>"),
		"php job.php {id} 2>/dev/null":                  gets("2>"),
		"php job.php {id} 2>&1":                         gets("2>&1"),
		"php job.php {id} &>out":                        gets("&>"),
		"php job.php <in {id}":                          gets("<"),
		"php job.php {id} | tee out":                    gets("|"),
		"php job.php {id} && php done.php":              gets("&&"),
		"php job.php {id} ; true":                       gets(";"),
		"php job.php {id} &":                            gets("&"),
		"php job.php $(date +%s) {id}":                  gets("$(…)"),
		"php job.php `date` {id}":                       gets("$(…)"),
		`php job.php "{id}"`:                            quotes,
		"php job.php '{id}'":                            quotes,
		`php -r "echo 1;" {id}`:                         quotes,
		"sh -c run.sh {id} > /dev/null":                 "",
		"/usr/bin/env bash -c 'x' {id}":                 "",
		"ssh host php job.php {id} > /dev/null":         "",
		"find /srv -name {id} -exec rm {} ;":            "",
		"run --where=a>b {id} a>b ->x <tag> >=2 5>4>3 ": "",
		`run --name="a" {"a":1} it's {id} x&y a|b a;b`:  "",
		"http://h/run?a={id}&b=1":                       "",
	} {
		c := mustParse(t, with("--launcher="+launcher), nil)
		said := strings.Join(c.Warnings, "\n")
		if want == "" && said != "" || !strings.Contains(said, want) || len(c.Warnings) > 1 {
			t.Errorf("%s: warnings %q, want %q", launcher, said, want)
		}
	}
	for _, launcher := range []string{`php job.php "{id}"`, `sh -c 'php job.php {id} > /dev/null'`, `jq '"a"' {id}`} {
		if c := mustParse(t, with("--launcher="+launcher, "--launcher-split=shell"), nil); len(c.Warnings) > 0 {
			t.Errorf("%s, split as a shell does: warnings %q", launcher, c.Warnings)
		}
	}
	c, err := fromFile(t, "[target a]\nlauncher = run {id} > out\n", "--targets.a=1")
	if want := ":2: target.a.launcher: no shell reads it"; err != nil || !strings.Contains(strings.Join(c.Warnings, "\n"), want) {
		t.Errorf("a target's own: %v, warnings %q, want %q", err, c.Warnings, want)
	}
}
