package principal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/big"
	"regexp"
	"strings"
)

// A token is jobd_NAME_, 32 random bytes in base62 and a checksum of all that stands before it: scanners find
// those that have leaked, and what has not this form is no token. The file has its digest.
var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	tokenForm  = regexp.MustCompile(`^jobd_[A-Za-z0-9._-]{1,64}_[0-9A-Za-z]{49}$`)
	digestForm = regexp.MustCompile(`^token:sha256:[0-9a-f]{64}$`)
)

// How many digits of a token are secret, and how many are the checksum.
const secretDigits, sumDigits = 43, 6

// IsWord tells whether a text has the form of a name, as the words have for how somebody is known.
func IsWord(text string) bool { return nameForm.MatchString(text) }

// checkName tells why a principal can't have a name.
func checkName(name string) error {
	if !nameForm.MatchString(name) || name == "password" {
		return errors.New("not a name; allowed: 1 to 64 of A-Z, a-z, 0-9 and . _ -, save the word password")
	}
	return nil
}

// NewToken makes a token, and the credential that stands for it in the file.
func NewToken(name string) (token, credential string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	token = "jobd_" + name + "_" + base62(secret, secretDigits)
	token += checksum(token)
	return token, Credential(token), nil
}

// Credential is what stands for a token in the file.
func Credential(token string) string { return credentialOf(sha256.Sum256([]byte(token))) }

func credentialOf(digest [sha256.Size]byte) string {
	return "token:sha256:" + hex.EncodeToString(digest[:])
}

// IsToken tells whether a text has the form of a token, with its checksum.
func IsToken(text string) bool {
	at := len(text) - sumDigits
	return tokenForm.MatchString(text) && checksum(text[:at]) == text[at:]
}

func checksum(text string) string {
	return base62(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text))), sumDigits)
}

// base62 is a number of so many digits.
func base62(number []byte, length int) string {
	digits := new(big.Int).SetBytes(number).Text(62)
	return strings.Repeat("0", length-len(digits)) + digits
}
