package torture

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"jobd/tests/harness"
)

// models are good frames.
var models = []string{
	`[2]`, `[3]`, `[0,{"no":7,"type":"journal-events","data":{"job":1}}]`, `[0,{"no":7,"type":"add-target","data":{"target":"b","concurrency":2}}]`, `[0,{"no":7,"type":"status"}]`, `[0,{"no":7,"type":"poll","data":{"targets":["a"]}}]`,
	`[0,{"no":7,"type":"run-manual","data":{"ids":[7000001,7000002]}}]`, `[0,{"no":7,"type":"send-signal","data":{"jobs":{"1":15}}}]`,
	`[0,{"no":7,"type":"set-target-concurrency","data":{"target":"a","concurrency":0}}]`, `[1,{"no":7,"data":"ok"}]`,
}

// mutant is a good frame with up to three places in which a byte was changed, the rest cut, or a part
// repeated or nested deeply.
func mutant(random *rand.Rand) []byte {
	b := []byte(models[random.IntN(len(models))])
	for range random.IntN(4) {
		at := random.IntN(len(b))
		switch random.IntN(4) {
		case 0:
			b[at] = byte(random.IntN(256))
		case 1:
			b = b[:at+1]
		case 2:
			b = slices.Insert(b, at, b[random.IntN(at+1):at]...)
		case 3:
			b = slices.Insert(b, at, bytes.Repeat([]byte("["), random.IntN(2000))...)
		}
	}
	return append(b, harness.EOT)
}
