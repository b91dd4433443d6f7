package operator

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // Berlin, wherever this runs

	"jobd/store/storetest/must"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	east := time.FixedZone("east", 3600)
	for text, want := range map[string]time.Time{
		"2026-11-20 14:00":          time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC),
		"2026-11-20 14:00:30":       time.Date(2026, 11, 20, 13, 0, 30, 0, time.UTC),
		"2026-11-20 14:00:30.25":    time.Date(2026, 11, 20, 13, 0, 30, 250_000_000, time.UTC),
		"2026-11-20T14:00":          time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC),
		"2026-11-20":                time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC),
		"2026-11-20T14:00:00Z":      time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC),
		"2026-11-20T14:00:00.5Z":    time.Date(2026, 11, 20, 14, 0, 0, 500_000_000, time.UTC),
		"2026-11-20T14:00:00+02:00": time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		"12:59":                     now.Add(-time.Minute),
		"13:00:00":                  now,
		"13:00:01":                  now.Add(time.Second - 24*time.Hour),
		"14:00":                     now.Add(-23 * time.Hour),
		"2h":                        now.Add(-2 * time.Hour),
		"1.5h":                      now.Add(-90 * time.Minute),
		"30d":                       now.AddDate(0, 0, -30),
		"0s":                        now,
		"1763640000":                time.Unix(1763640000, 0),
		"1795299125.2":              time.Unix(1795299125, 200_000_000),
		"1795299125.123456789":      time.Unix(1795299125, 123_456_789),
		"1795299125.":               time.Unix(1795299125, 0),
		"1000000000":                time.Unix(1000000000, 0),
		"9999999999":                time.Unix(9999999999, 0),
	} {
		if got, err := ParseTime(text, now, east); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%s) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "allowed is a time such as", "then": "allowed is a time such as", "-2h": "allowed is", "24:00": "allowed is", "14": "how long ago has a unit", "2026-13-01": "allowed is",
		"2026-02-30": "allowed is", "2026-11": "allowed is", "1M": "allowed is", "0x6ad0": "allowed is", "1_763_640_000": "allowed is", " 2h": "allowed is",
		"20261121":            "how long ago has a unit",
		"20261121140000":      "how long ago has a unit",
		"202611211400":        "how long ago has a unit",
		"1795299125200":       "how long ago has a unit",
		"1795299125200.5":     "how long ago has a unit",
		"1795299125200000":    "how long ago has a unit",
		"1795299125200000000": "how long ago has a unit",
		"0":                   "how long ago has a unit", "5": "how long ago has a unit", "2026": "how long ago has a unit", "90.5": "how long ago has a unit",
		"999999999": "unix time in seconds, of ten digits", "10000000000": "unix time in seconds, of ten digits",
		"-1763640000": "unix time", "+1763640000": "unix time", "1.7e9": "unix time", "1.5e400": "unix time", "1763640000e1": "unix time", ".5": "unix time",
		"1795299125.1234567891": "unix time", "1795299125.2.3": "allowed is", "٢٠٢٦١١٢١": "allowed is", "1795299125,2": "allowed is", "inf": "allowed is", "NaN": "allowed is",
	} {
		if got, err := ParseTime(text, now, east); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseTime(%q) = %v, %v, want an error with %q", text, got, err, says)
		}
	}
}

// Times are those of the place, also on the days on which its clocks change.
func TestParseTimeWhereClocksAreChanged(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	for text, want := range map[string]time.Time{
		"2026-10-25 01:59": time.Date(2026, 10, 24, 23, 59, 0, 0, time.UTC),
		"2026-10-25 03:00": time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC),
		"2026-10-25":       time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC),
		"2026-03-29 03:00": time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC),
		"2026-07-01 12:00": time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseTime(text, now, berlin); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%s) = %v, %v, want %v", text, got, err, want)
		}
	}
}
