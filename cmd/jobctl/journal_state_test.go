package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

func TestJournalShow(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	want := `job 5

2026-11-20 10:00:02.000000  claimed by web-1 from the table, for target a, with token @tokenfive
2026-11-20 10:00:03.000000  attempt 1 starts, after it waited 1s
2026-11-20 10:00:04.000000  started as process 100
2026-11-20 10:00:05.000000  ended: exit code 7

waited  1s
ran     2s
in all  3s

stdout: 3 bytes
out

stderr: 9000 bytes
bad

[jobd: output cut, 9000 bytes in all]
`
	if got := (jobctl{}).run(t, "journal", "show", "5", "--journal", dir); got != (output{out: want}) {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", got.code, got.err, got.out, want)
	}
	running := `job 7

2026-11-20 10:00:11.000000  claimed by web-1 from the table, for target a, with token @tokenseve
2026-11-20 10:00:12.000000  attempt 1 starts, after it waited 1s

waited  1s
`
	if got := (jobctl{}).run(t, "journal", "show", "7", "--journal", dir); got != (output{out: running}) {
		t.Errorf("job 7: %+v", got)
	}
	unknown := output{code: 4, err: "jobctl: job 99: no journal knows it\n"}
	if got := (jobctl{}).run(t, "journal", "show", "99", "--journal", dir); got != unknown {
		t.Errorf("job 99: %+v", got)
	}
	asJSON := jobctl{}.run(t, "journal", "show", "5", "--journal", dir, "--output=json")
	if strings.Count(asJSON.out, "\n") != 4 || !strings.Contains(asJSON.out, `"stdout":"out","stderr":"bad\n"`) {
		t.Errorf("as JSON: %+v", asJSON)
	}
}

func TestJournalState(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	want := `JOB  TARGET  STATUS    RESULT                ATTEMPT  ACCEPTED                    RUNNING                     ENDED
5    a       done      exit code 7           1        2026-11-20 10:00:02.000000  2026-11-20 10:00:03.000000  2026-11-20 10:00:05.000000
6    b       done      killed by SIGTERM     1        2026-11-20 10:00:06.000000  2026-11-20 10:00:07.000000  2026-11-20 10:00:10.000000
8    -       ignored   target 'x' not found  0        -                           -                           2026-11-20 10:00:13.000000
9    a       released  the claim was lost    0        2026-11-20 10:00:14.000000  -                           2026-11-20 10:00:15.000000
7    a       starting  -                     1        2026-11-20 10:00:11.000000  2026-11-20 10:00:12.000000  -
`
	if got := (jobctl{}).run(t, "journal", "state", "--journal", dir); got != (output{out: want}) {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", got.code, got.err, got.out, want)
	}
	then := `JOB | TARGET | STATUS  | RESULT      | ATTEMPT | SINCE
----+--------+---------+-------------+---------+---------
5   | a      | done    | exit code 7 | 1       | 10:00:05
6   | b      | running |             | 1       | 10:00:07
`
	if got := (jobctl{terminal: true}).run(t, "journal", "state", "--at", "2026-11-20T10:00:09Z", "--journal", dir); got != (output{out: then}) {
		t.Errorf("at 10:00:09: exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", got.code, got.err, got.out, then)
	}
	asJSON := jobctl{}.run(t, "journal", "state", "--status=starting", "--journal", dir, "--output=json")
	if !sameJSON(t, asJSON.out, `{"job":7,"target":"a","manual":false,"status":"starting","token":"@tokenseve","attempt":1,"accepted":"2026-11-20T10:00:11Z","running":"2026-11-20T10:00:12Z"}`) {
		t.Errorf("as JSON: %+v", asJSON)
	}
}

func TestJournalVerify(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	got := jobctl{}.run(t, "journal", "verify", "--journal", dir)
	if got.code != 0 || !strings.HasPrefix(got.out, "verified: 17 events, the last of 2026-11-20 10:00:17.000000 with hash ") {
		t.Errorf("sound: %+v", got)
	}

	path := filepath.Join(dir, "segment-00000001.db")
	content := must.Get(os.ReadFile(path))(t)
	if bytes.Count(content, []byte("@tokenseve")) != 1 {
		t.Fatal("event 11 is not in the file as expected")
	}
	must.Do(t, os.WriteFile(path, bytes.Replace(content, []byte("@tokenseve"), []byte("@tokenevil"), 1), 0o600))
	got = jobctl{}.run(t, "journal", "verify", "--journal", dir)
	const ranges = "not as it was written: 1 event is damaged\nfirst bad sequence number: 11\n" +
		"EVENTS  COUNT  VERDICT     WHY\n" +
		"1-10    10     consistent  -\n" +
		"11-11   1      damaged     its hash does not match its content and the event before it\n" +
		"12-17   6      consistent  -\n"
	if got.code != 1 || got.out != ranges || !strings.Contains(got.err, "damaged at event 11") {
		t.Errorf("altered: %+v", got)
	}
	got = jobctl{}.run(t, "journal", "verify", "--journal", dir, "--output=json")
	if got.code != 1 || !strings.Contains(got.out, `"first_bad":11`) || !strings.Contains(got.out, `"ok":false`) || !strings.Contains(got.out, `"events":10`) ||
		!strings.Contains(got.out, `{"first":12,"last":17,"verdict":"consistent"}`) {
		t.Errorf("altered, as JSON: %+v", got)
	}
}
