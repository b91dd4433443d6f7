package conf

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
)

// Decode puts the value that a text stands for into a field. Its error says what is allowed, as in
// "a whole number of at least 1"; an [Odd] one warns of a text that was taken.
type Decode func(text string) error

// Odd is the error for a text that has a meaning, though hardly the one that its writer had in mind.
// It says which meaning that is, and what is allowed.
type Odd string

// Error implements error.
func (o Odd) Error() string { return string(o) }

// Text takes the text as it is.
func Text(field *string) Decode {
	return func(text string) error {
		*field = text
		return nil
	}
}

// NonEmpty takes any text but the empty one.
func NonEmpty(field *string) Decode {
	return func(text string) error {
		if text == "" {
			return errors.New("any text but an empty one")
		}
		*field = text
		return nil
	}
}

// Bool takes 1 and true as true, all else as false. What is none of 1, true, 0 and false is odd.
func Bool(field *bool) Decode {
	return func(text string) error {
		*field = text == "1" || text == "true"
		if slices.Contains([]string{"1", "true", "0", "false", ""}, text) {
			return nil
		}
		return Odd("its value counts as false; allowed: 1 and true, 0 and false")
	}
}

// YesNo takes yes, true and 1, and no, false and 0: of a key that the original does not know nothing else counts
// as false.
func YesNo(field *bool) Decode {
	return func(text string) error {
		var word string
		err := OneOf(&word, "yes", "no", "true", "false", "1", "0")(text)
		*field = word == "yes" || word == "true" || word == "1"
		return err
	}
}

// Host takes a name or an address to connect to or to listen on. Its port has a key of its own.
func Host(field *string, portKey string) Decode {
	return func(text string) error {
		bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		_, err := netip.ParseAddr(bare)
		if bare == "" || err != nil && (strings.ContainsAny(text, ":/@,") || strings.ContainsFunc(text, unicode.IsSpace)) {
			return fmt.Errorf("one name or address; a port belongs to the key %s", portKey)
		}
		*field = text
		return nil
	}
}

// SplitHost takes the port off one of several hosts, as of "a, b:7082, [::1]:7081"; without one it is port.
func SplitHost(host string, port int) (name string, of int, err error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(bare); err == nil || !strings.Contains(host, ":") {
		return bare, port, nil
	}
	name, text, err := net.SplitHostPort(host)
	if err != nil {
		return "", 0, err
	}
	if name == "" {
		return "", 0, fmt.Errorf("no host in %q", host)
	}
	if err := Int(&of, 1, 65535)(text); err != nil {
		return "", 0, err
	}
	return name, of, nil
}

// Hosts takes one host, as Host does, or several with commas between them, each with a port or without.
func Hosts(field *string, portKey string) Decode {
	return func(text string) error {
		if !strings.Contains(text, ",") {
			return Host(field, portKey)(text)
		}
		for host := range strings.SplitSeq(text, ",") {
			name, _, err := SplitHost(strings.TrimSpace(host), 1)
			if err != nil || Host(new(string), portKey)(name) != nil {
				return errors.New("names and addresses, each with :port or without, as in: a, b:7082, [::1]:7081")
			}
		}
		*field = text
		return nil
	}
}

// longestSocket is how many bytes the path of a unix socket may have.
const longestSocket = 107

// Socket takes the absolute path of a unix socket.
func Socket(field *string) Decode {
	return func(text string) error {
		if text != "" && (!strings.HasPrefix(text, "/") || len(text) > longestSocket) {
			return fmt.Errorf("the absolute path of a unix socket, of at most %d bytes", longestSocket)
		}
		*field = text
		return nil
	}
}

// Int takes whole numbers from least to most.
func Int(field *int, least, most int) Decode {
	allowed := fmt.Errorf("a whole number from %d to %d", least, most)
	if most == math.MaxInt {
		allowed = fmt.Errorf("a whole number of at least %d", least)
	}
	return func(text string) error {
		number, err := strconv.Atoi(text)
		if err != nil || number < least || number > most {
			return allowed
		}
		*field = number
		return nil
	}
}

// OneOf takes one of the words.
func OneOf(field *string, words ...string) Decode {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("one of: %s", strings.Join(words, ", "))
		}
		*field = text
		return nil
	}
}

// Either takes one of two words; the second one is true.
func Either(field *bool, no, yes string) Decode {
	return func(text string) error {
		var word string
		err := OneOf(&word, no, yes)(text)
		*field = word == yes
		return err
	}
}

// Duration takes seconds, also broken ones, or a number with a unit: 500ms, 2m, 30d. It
// must be at least least.
func Duration(field *time.Duration, least time.Duration) Decode {
	return func(text string) error {
		duration, err := ParseDuration(text)
		if err != nil || duration < least {
			return fmt.Errorf("seconds, or a duration such as 500ms, 2m, 1h30m or 30d, of at least %v", least)
		}
		*field = duration
		return nil
	}
}

// WholeSeconds takes durations as Duration does, of whole seconds, from one to most.
func WholeSeconds(field *time.Duration, most time.Duration) Decode {
	return func(text string) error {
		duration, err := ParseDuration(text)
		if err != nil || duration < time.Second || duration%time.Second != 0 || duration > most {
			return fmt.Errorf("whole seconds, or a duration such as 90s, 10m, 1h30m or 30d, from 1s to %s", inWords(most))
		}
		*field = duration
		return nil
	}
}

// Longest is longer than anybody waits: a time that is later is another unit's.
const Longest = 36500 * 24 * time.Hour

// inWords is a number of hours, or of days where they are more than one.
func inWords(length time.Duration) string {
	if length > 24*time.Hour {
		return fmt.Sprintf("%.0fd", length.Hours()/24)
	}
	return fmt.Sprintf("%.0fh", length.Hours())
}

// ParseDuration reads a duration: a bare number is seconds, d means days of 24
// hours, all else is as in time.ParseDuration.
func ParseDuration(text string) (time.Duration, error) {
	unit, number := time.Second, text
	if days, found := strings.CutSuffix(text, "d"); found {
		unit, number = 24*time.Hour, days
	}
	count, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return time.ParseDuration(text)
	}
	if length := count * float64(unit); math.Abs(length) < math.MaxInt64 {
		return time.Duration(length), nil
	}
	return 0, fmt.Errorf("duration %q: too long", text)
}

// Size takes bytes, or a number with a unit: 64KiB, 16MiB, 1GB. It must be
// from least to most bytes.
func Size[N int | int64](field *N, least, most N) Decode {
	return func(text string) error {
		size, err := humanize.ParseBytes(text)
		if err != nil || size > math.MaxInt64 || N(size) < least || N(size) > most {
			return fmt.Errorf("bytes, or a size such as 16MiB, from %d to %d", least, most)
		}
		*field = N(size)
		return nil
	}
}

// LevelTrace is below debug: every message on the wire.
const LevelTrace = slog.Level(-8)

// Level takes the names of the log levels.
func Level(field *slog.Level) Decode {
	names := []string{"trace", "debug", "info", "warn", "error"}
	levels := []slog.Level{LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	return func(text string) error {
		i := slices.Index(names, strings.ToLower(text))
		if i < 0 {
			return fmt.Errorf("one of: %s", strings.Join(names, ", "))
		}
		*field = levels[i]
		return nil
	}
}
