package exec

import (
	"crypto/rand"
	"crypto/sha256"
)

// A claim's token is ten characters: "@", four of a hash of the worker's name,
// five random ones. It stands in the row's owner column while the claim holds.

// tokenAlphabet is lower-case base32: safe in every character set and collation.
const tokenAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// newToken makes the token of a new claim.
func newToken(worker string) string {
	var random [5]byte
	rand.Read(random[:]) // never fails
	return "@" + ownerHash(worker) + letters(random[:])
}

// ownerHash is the part of a token that tells the worker.
func ownerHash(worker string) string {
	sum := sha256.Sum256([]byte(worker))
	return letters(sum[:4])
}

func letters(b []byte) string {
	text := make([]byte, len(b))
	for i := range b {
		text[i] = tokenAlphabet[b[i]%32]
	}
	return string(text)
}
