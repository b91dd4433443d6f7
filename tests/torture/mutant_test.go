package torture

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"jobd/tests/harness"
)

// models are good frames.
var models = []string{
	`[2]`, `[3]`, `[0,{"no":7,"type":"status"}]`, `[0,{"no":7,"type":"poll","data":{"targets":["a"]}}]`,
	`[0,{"no":7,"type":"run-manual","data":{"ids":[7000001,7000002]}}]`, `[0,{"no":7,"type":"send-signal","data":{"jobs":{"1":15}}}]`,
	`[0,{"no":7,"type":"set-target-concurrency","data":{"target":"a","concurrency":0}}]`, `[1,{"no":7,"data":"ok"}]`,
}

// mutant is a good frame with up to three places in which a byte was changed, the rest cut, or a part
// repeated or nested deeply.
func mutant() []byte {
	b := []byte(models[rand.IntN(len(models))])
	for range rand.IntN(4) {
		at := rand.IntN(len(b))
		switch rand.IntN(4) {
		case 0:
			b[at] = byte(rand.IntN(256))
		case 1:
			b = b[:at+1]
		case 2:
			b = slices.Insert(b, at, b[rand.IntN(at+1):at]...)
		case 3:
			b = slices.Insert(b, at, bytes.Repeat([]byte("["), rand.IntN(2000))...)
		}
	}
	return append(b, harness.EOT)
}
