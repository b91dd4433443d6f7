package conf

// Key is a key as manual pages list it.
type Key struct {
	Name    string // in the file: [targets] NAME of a section's
	Flag    string // with its hyphens
	Default string // "": none
	Meaning string
}

// Keys are all keys, in the order of the help.
func (s *Set) Keys() (keys []Key) {
	for _, setting := range s.settings {
		if !setting.isMember() {
			keys = append(keys, Key{setting.key, "--" + setting.flag, setting.def, setting.usage})
		}
	}
	for _, f := range s.families {
		key := Key{Name: f.prefix + "NAME", Flag: "--" + f.prefix + "NAME", Meaning: f.usage}
		if f.section != "" {
			key.Name = "[" + f.section + "] NAME"
		}
		keys = append(keys, key)
	}
	return append(keys, s.sectionKeys()...)
}
