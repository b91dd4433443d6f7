package net

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// maxSafe is the largest integer n such that n and n+1 are both exact in a float64,
// which is all that a JavaScript peer has for numbers.
const maxSafe = 1<<53 - 1

// TypeOf is JavaScript's typeof of a JSON value: "string", "number", "boolean" or "object",
// the last also for null and arrays, and "undefined" where there is no value.
func TypeOf(value json.RawMessage) string {
	switch firstByte(value) {
	case 0:
		return "undefined"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case '{', '[', 'n':
		return "object"
	default:
		return "number"
	}
}

// Integer is a JSON value as an integer, if it is one the way JavaScript sees it (1, 1.0 and 10e-1
// all are). Numbers that a float64 does not hold exactly are none.
func Integer(value json.RawMessage) (int64, bool) {
	if TypeOf(value) != "number" {
		return 0, false
	}
	whole, err := strconv.ParseInt(string(value), 10, 64) // as most are written
	if err == nil && -maxSafe <= whole && whole <= maxSafe {
		return whole, true
	}
	number := toNumber(json.Number(bytes.TrimSpace(value)))
	if math.Trunc(number) != number || math.Abs(number) > maxSafe {
		return 0, false
	}
	return int64(number), true
}

// truthy tells whether JavaScript takes a JSON value for true in a condition.
func truthy(value json.RawMessage) bool {
	switch firstByte(value) {
	case 0, 'n', 'f':
		return false
	case '"':
		return len(bytes.TrimSpace(value)) > len(`""`)
	case '{', '[', 't':
		return true
	default:
		return toNumber(json.Number(bytes.TrimSpace(value))) != 0
	}
}

// toString is JavaScript's String() of a JSON value.
func toString(value json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return "undefined" // no value: that is the only error left after the frame was parsed
	}
	return anyToString(decoded)
}

func anyToString(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return formatNumber(toNumber(value))
	case string:
		return value
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			if item != nil {
				items[i] = anyToString(item)
			}
		}
		return strings.Join(items, ",")
	default:
		return "[object Object]"
	}
}

// toNumber is the float64 that JavaScript makes of a JSON number: infinite where it is too large.
func toNumber(number json.Number) float64 {
	parsed, _ := strconv.ParseFloat(string(number), 64) // out of range gives ±Inf, as wanted
	return parsed
}

// formatNumber is JavaScript's Number.prototype.toString.
func formatNumber(number float64) string {
	switch {
	case math.IsInf(number, 1):
		return "Infinity"
	case math.IsInf(number, -1):
		return "-Infinity"
	case number == 0:
		return "0" // so is -0
	}
	text, _ := json.Marshal(number) // finite numbers never fail; encoding/json follows the same rules
	return string(text)
}

// firstByte is the first byte of a JSON value that is not white space, 0 where there is none.
func firstByte(value []byte) byte {
	for _, b := range value {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}
