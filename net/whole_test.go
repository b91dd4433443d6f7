package net

import (
	"encoding/json"
	"math"
	"testing"
)

func TestWholeKeepsEveryNumber(t *testing.T) {
	t.Parallel()
	for number, want := range map[Whole]string{
		0: `0`, -5: `-5`,
		1<<53 - 1:     `9007199254740991`,
		1 << 53:       `"9007199254740992"`,
		-1 << 53:      `"-9007199254740992"`,
		math.MaxInt64: `"9223372036854775807"`,
		math.MinInt64: `"-9223372036854775808"`,
	} {
		encoded, err := json.Marshal(number)
		if err != nil || string(encoded) != want {
			t.Errorf("%d is %s, %v; want %s", int64(number), encoded, err, want)
		}
		var got Whole
		if err := json.Unmarshal(encoded, &got); err != nil || got != number {
			t.Errorf("%s is read as %d, %v", encoded, int64(got), err)
		}
	}
}

func TestWholeRefusesWhatIsNotExact(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`9007199254740993`, `9007199254740992`, `1.5`, `"5"`, `"09007199254740993"`, `"9223372036854775808"`, `"x"`, `""`, `null`, `[1]`, `true`,
	} {
		if got, err := ParseWhole(json.RawMessage(text)); err == nil {
			t.Errorf("%s is read as %d, want an error", text, int64(got))
		}
	}
}
