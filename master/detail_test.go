package master

import (
	"testing"
	"testing/synctest"
)

// A client that asks for details hears what nobody serves; one that does not is answered as ever.
func TestWhatNobodyServesIsTold(t *testing.T) {
	t.Parallel()
	tests := []struct{ typ, data, want string }{
		{"poke", `{"targets":["a","nobody","B","nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody","B"],"workers":2}`}, // no table folds
		{"poke", `{"targets":["nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody"],"workers":0}`},
		{"poke", `{"targets":["a","nobody"]}`, `"ok"`},
		{"poke", `{"targets":["nobody"],"detail":false}`, `"ok"`},
		{"pause", `{"targets":["a","nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody"],"workers":2}`},
		{"pause", `{"targets":["B"],"detail":true}`, `{"result":"ok","unserved":["B"],"workers":0}`}, // no table folds
		{"continue", `{"targets":["b"],"detail":true}`, `{"result":"ok","unserved":[],"workers":1}`},
		{"continue", `{"detail":true}`, `{"result":"ok","unserved":[],"workers":2}`},
		{"pause", `{"targets":["a","nobody"]}`, `"ok"`},
		{"recycle", `{"targets":["b","nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody"],"workers":1}`},
		{"recycle", `{}`, `"ok"`},
	}
	for _, test := range tests {
		t.Run(test.typ+" "+test.data, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, Config{})
				b.join("one", askedFor(new([]string), "1"), "a")
				b.join("two", askedFor(new([]string), "2"), "a", "b")
				if got := b.do(test.typ, test.data); got != test.want {
					t.Errorf("answer %s, want %s", got, test.want)
				}
				synctest.Wait()
			})
		})
	}
}
