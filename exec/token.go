package exec

import (
	"crypto/rand"
	"crypto/sha256"
	"strconv"
)

// A claim's token is ten characters: "@", the four of the worker's mark, five random ones. It
// stands in the row's owner column while the claim holds. No two workers that live have the same
// mark.

// tokenAlphabet is lower-case base32: safe in every character set and collation.
const tokenAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// newToken makes the token of a new claim.
func newToken(mark string) string {
	var random [5]byte
	rand.Read(random[:]) // never fails
	return "@" + mark + letters(random[:])
}

// markOf is a mark for a worker's name: the one that a worker of this name tries first, or, for n
// above 0, a further one.
func markOf(name string, n int) string {
	if n > 0 {
		name += "#" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(name))
	return letters(sum[:4])
}

func letters(b []byte) string {
	text := make([]byte, len(b))
	for i := range b {
		text[i] = tokenAlphabet[b[i]%32]
	}
	return string(text)
}

// IsMarkOf tells whether a mark is one of those that a worker of this name tries first. Others may
// come to the same.
func IsMarkOf(mark, name string) bool {
	const likely = 10
	for n := range likely {
		if markOf(name, n) == mark {
			return true
		}
	}
	return false
}
