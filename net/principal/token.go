package principal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/big"
	"strings"
)

// A token is jobd_NAME_, secretBytes random ones in base62, and a checksum of all that stands before it: so
// scanners find one that has leaked, and what is no token is known without looking it up.
const (
	tokenPrefix   = "jobd_"
	secretBytes   = 32
	secretLength  = 43 // of so many bytes in base62
	sumLength     = 6  // of four bytes
	credentialOf  = "token:sha256:"
	longestName   = 64
	reservedName  = "password" // whoever gives the password is called so
	allowedInName = "A to Z, a to z, 0 to 9, dot, underscore and hyphen"
)

// NewToken makes a token for a principal, and the credential that stands for it in the file.
func NewToken(name string) (token, credential string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	token = tokenPrefix + name + "_" + base62(secret, secretLength)
	token += checksum(token)
	return token, Credential(token), nil
}

// Credential is what stands for a token in the file.
func Credential(token string) string {
	digest := sha256.Sum256([]byte(token))
	return credentialOf + hex.EncodeToString(digest[:])
}

// IsToken tells whether a text has the form of a token, with its checksum.
func IsToken(text string) bool {
	_, is := NameOf(text)
	return is
}

// NameOf is the name in a token. It proves nothing: what counts is the line that has its digest.
func NameOf(token string) (name string, is bool) {
	rest, is := strings.CutPrefix(token, tokenPrefix)
	at := len(rest) - secretLength - sumLength - len("_")
	if !is || at < 0 || rest[at] != '_' || checkName(rest[:at]) != nil || strings.ContainsFunc(rest[at+1:], notBase62) {
		return "", false
	}
	before, sum := token[:len(token)-sumLength], token[len(token)-sumLength:]
	return rest[:at], checksum(before) == sum
}

func notBase62(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

func checksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	return base62([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, sumLength)
}

// base62 writes bytes as a number of so many digits.
func base62(bytes []byte, length int) string {
	digits := new(big.Int).SetBytes(bytes).Text(62)
	return strings.Repeat("0", length-len(digits)) + digits
}

// checkName tells why a principal can't have a name, if so.
func checkName(name string) error {
	for _, r := range name {
		if notBase62(r) && !strings.ContainsRune("._-", r) {
			return errors.New("not a name; allowed are " + allowedInName)
		}
	}
	switch {
	case name == "" || len(name) > longestName:
		return errors.New("not a name; allowed are 1 to 64 of " + allowedInName)
	case name == reservedName:
		return errors.New("the name password is that of whoever gives the password; allowed is any other name")
	}
	return nil
}
