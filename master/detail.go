package master

// Detail is the answer to poke, pause and continue where the request has detail: true. Without it
// the answer is the text ok, as clients of the original expect.
type Detail struct {
	Result   string   `json:"result"`   // ok
	Unserved []string `json:"unserved"` // those of the targets that no registered worker serves
	Workers  int      `json:"workers"`  // that serve one of them, or all where none were named
}

// detail tells which of the targets no worker serves; served gives those that one does.
func (m *Master) detail(targets []string, served func(*profile) []string) Detail {
	detail := Detail{Result: "ok", Unserved: []string{}}
	found := make(map[string]bool, len(targets))
	for _, w := range m.registry.all() {
		of := served(w.profile.Load())
		for _, target := range of {
			found[target] = true
		}
		if len(of) > 0 {
			detail.Workers++
		}
	}
	for _, target := range unique(targets) {
		if !found[target] {
			detail.Unserved = append(detail.Unserved, target)
		}
	}
	return detail
}
