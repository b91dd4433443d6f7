package conf

import (
	"maps"
	"slices"
)

// Values is what the keys were given, defaults left out, as text by key. There may be passwords
// among them.
type Values map[string]string

// Values gives what was read.
func (s *Set) Values() Values {
	values := Values{}
	for _, setting := range s.settings {
		if setting.given {
			values[setting.key] = setting.text
		}
	}
	return values
}

// Changed lists the keys whose values differ, in order. The values stay here.
func (v Values) Changed(since Values) []string {
	keys := maps.Clone(v)
	maps.Copy(keys, since)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(key string) bool {
		now, given := v[key]
		before, was := since[key]
		return now == before && given == was
	})
}
