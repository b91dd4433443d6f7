package request

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAScriptSaysMeans(t *testing.T) {
	t.Parallel()
	const missing = "there is no Jobd-Exit-Code header: the script did not come to its end, or does not say so"
	const headless = "the script has ended without a head that can be understood"
	fails := func(code int, err string, of said) said {
		of.Result, of.Code, of.Err = "fail", code, err
		return of
	}
	for name, c := range map[string]struct {
		answer string
		want   said
	}{
		"ok":                      {out(done + "\r\nout"), said{Result: "ok", Out: "out"}},
		"ok, by LF":               {out("Jobd-Exit-Code: 0\n\nout"), said{Result: "ok", Out: "out"}},
		"ok, and says so":         {out("Status: 201 Made\r\n" + done + "\r\nout"), said{Result: "ok", Out: "out"}},
		"ok, in many pieces":      {piece(toldOut, "Jobd-Ex", 0) + piece(toldErr, "e", 1) + piece(toldOut, "it-Code: 0\r\n\r", 9) + piece(toldOut, "\no", 0) + piece(toldOut, "ut", 0) + piece(toldErr, "rr", 0) + finished(0, 0), said{Result: "ok", Out: "out", Err: "err"}},
		"ok, and no end of out":   {piece(toldOut, done+"\r\nout", 0) + finished(0, 0), said{Result: "ok", Out: "out"}},
		"ok, whatever the app is": {piece(toldOut, done+"\r\n", 0) + finished(9, 0), said{Result: "ok"}},
		"no code":                 {out("X: y\r\n\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: missing})},
		"no header at all":        {out("\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: missing})},
		"no code, a status":       {out("Status: 204 No Content\r\n\r\n"), fails(2, "Status: 204 No Content\n", said{Note: missing})},
		"no code, an app's":       {piece(toldOut, "X: y\r\n\r\nwhy", 0) + finished(255, 0), fails(255, "Status: 200 OK\nwhy\n", said{Note: missing})},
		"no code, a strange app":  {piece(toldOut, "X: y\r\n\r\n", 0) + finished(256, 0), fails(2, "Status: 200 OK\n", said{Note: missing})},
		"7":                       {out("Jobd-Exit-Code: 7\r\n\r\nwhy"), fails(7, "Status: 200 OK\nwhy", said{})},
		"a code that is none":     {out("Jobd-Exit-Code: ok\r\n\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: `Jobd-Exit-Code "ok" is no exit code: 0 to 255 is one`})},
		"two codes":               {out(done + done + "\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: `Jobd-Exit-Code "0, 0" is no exit code: 0 to 255 is one`})},
		"stderr before the body":  {piece(toldErr, "log", 0) + out("Jobd-Exit-Code: 7\r\n\r\nwhy"), fails(7, "Status: 200 OK\nwhy\nlog", said{})},
		"500":                     {out("Status: 500 No\r\n\r\nwhy"), fails(5, "Status: 500 No\nwhy", said{})},
		"500, code 0":             {out("Status: 500 No\r\n" + done + "\r\nwhy"), fails(5, "Status: 500 No\nwhy", said{})},
		"500, code 9":             {out("Status: 500 No\r\nJobd-Exit-Code: 9\r\n\r\nwhy"), fails(9, "Status: 500 No\nwhy", said{})},
		"404":                     {out("Status: 404 Not Found\r\n\r\nwhy"), fails(4, "Status: 404 Not Found\nwhy", said{Final: true})},
		"404, code 0":             {out("Status: 404\r\n" + done + "\r\n"), fails(4, "Status: 404\n", said{Final: true})},
		"429":                     {out("Status: 429 Later\r\nRetry-After: 9\r\n\r\nwhy"), fails(4, "Status: 429 Later\nwhy", said{RetryAfter: 9})},
		"503, code 0":             {out("Status: 503 Later\r\nRetry-After: 9\r\n" + done + "\r\n"), fails(5, "Status: 503 Later\n", said{RetryAfter: 9})},
		"a location":              {out("Location: /x\r\n" + done + "\r\n"), fails(3, "Status: 302 Found\n", said{Final: true})},
		"nothing":                 {finished(0, 0), fails(5, "Status: none\n", said{Note: headless})},
		"stderr only":             {piece(toldErr, "err", 0) + finished(0, 0), fails(5, "Status: none\nerr\n", said{Note: headless})},
		"no empty line":           {out("Jobd-Exit-Code: 0\r\n"), fails(5, "Status: none\nJobd-Exit-Code: 0\r\n", said{Note: headless})},
		"no head":                 {out("hello\n\nworld"), fails(5, "Status: none\nhello\n\nworld\n", said{Note: headless})},
		"a status that is none":   {out("Status: fine\r\n" + done + "\r\nout"), fails(5, "Status: none\nStatus: fine\r\n"+done+"\r\nout\n", said{Note: headless})},
		"a status beyond all":     {out("Status: 600 x\r\n\r\n"), fails(5, "Status: none\nStatus: 600 x\r\n\r\n", said{Note: headless})},
		"overloaded":              {finished(0, 2), fails(5, "Status: 503 FCGI_OVERLOADED\n", said{Note: "the FastCGI server has refused the request"})},
		"refused after all":       {piece(toldOut, done+"\r\nout", 0) + finished(0, 9), fails(5, "Status: 503 protocol status 9\nout\n", said{Note: "the FastCGI server has refused the request"})},
		"502":                     {out("Status: 502 Bad\r\n\r\n"), fails(5, "Status: 502 Bad\n", said{Unknown: "Status: 502 Bad: the service behind it may have had the request"})},
		"504, code 0":             {out("Status: 504 Late\r\n" + done + "\r\n"), fails(5, "Status: 504 Late\n", said{Unknown: "Status: 504 Late: the service behind it may have had the request"})},
		"504, code 3":             {out("Status: 504 Late\r\nJobd-Exit-Code: 3\r\n\r\n"), fails(3, "Status: 504 Late\n", said{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := saidOf(newFixture(t).run(fastcgiSpec(telling(t, c.answer))))
			if c.want.Result == "ok" {
				c.want.Code = 0
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAnAnswerThatIsNoFastCGIIsUnknown(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n":               "the answer is none of FastCGI: a record of version 72",
		piece(1, "12345678", 0):                          "the answer is none of FastCGI: a record of type 1",
		piece(toldOut, done+"\r\n", 0) + piece(3, "", 0): "the answer is none of FastCGI: an end of the request with 0 bytes",
		"": "the connection was closed",
	} {
		got := saidOf(newFixture(t).run(fastcgiSpec(telling(t, answer))))
		if want := "the request did not come to its end: " + want; got.Unknown != want {
			t.Errorf("%q ended as %+v, not %s", answer, got, want)
		}
	}
}

// Of what a script has said that did not come to its end, what came is kept, each where it belongs.
func TestOfAScriptThatIsCutWhatCameIsKept(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]said{
		piece(toldErr, "log", 0) + piece(toldOut, done+"\r\nout", 0) + piece(toldOut, "more", 0)[:10]: {Out: "outmo", Err: "log"},
		piece(toldErr, "log", 1)[:10]:             {Err: "lo"},
		piece(toldOut, "Status: 500 No\r\n", 0):   {Out: "Status: 500 No\r\n"},
		piece(toldOut, "X: y\r\n\r\n\x00\xff", 0): {Out: "\x00\xff"},
	} {
		want.Code, want.Unknown = -1, "the request did not come to its end: the connection was closed"
		if got := saidOf(newFixture(t).run(fastcgiSpec(telling(t, answer)))); got != want {
			t.Errorf("%q ended as %+v, not %+v", answer, got, want)
		}
	}
}

func TestOutputOfScriptsIsKeptAsFarAsItMay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60_000)
	body := strings.Repeat(piece(toldOut, long, 0), 40) + strings.Repeat(piece(toldErr, long, 0), 50)
	for head, want := range map[string]struct {
		out, err         int64
		keptOut, keptErr int
	}{
		done + "\r\n":            {2_400_000, 3_000_000, 1000, 1000},
		"Status: 500 No\r\n\r\n": {0, int64(len("Status: 500 No\n") + 5_400_000), 0, 1000},
	} {
		spec := fastcgiSpec(telling(t, piece(toldOut, head, 0)+body+finished(0, 0)))
		spec.MaxOutput = 1000
		got, err := newFixture(t).run(spec)
		if err != nil || got.Stdout.Size != want.out || got.Stderr.Size != want.err || len(got.Stdout.Kept) != want.keptOut || len(got.Stderr.Kept) != want.keptErr {
			t.Errorf("%q: %s, %d of %d bytes and %d of %d, %v", head, got.Result, len(got.Stdout.Kept), got.Stdout.Size, len(got.Stderr.Kept), got.Stderr.Size, err)
		}
	}
	head := strings.Repeat("X-Long: "+long[:8000]+"\r\n", 50)
	got, err := newFixture(t).run(fastcgiSpec(telling(t, strings.Repeat(piece(toldOut, head[:len(head)/10], 0), 10)+piece(toldOut, done+"\r\n", 0)+finished(0, 0))))
	if err != nil || got.Result != "fail" || !strings.Contains(got.Note, "without a head") || got.Stderr.Size < int64(len(head)) {
		t.Errorf("a head of %d bytes ended as %s, %q, %d bytes, %v", len(head), got.Result, got.Note, got.Stderr.Size, err)
	}
}
