package master

import "jobd/net/contract"

// detail is the answer that tells which of the targets no worker serves; served gives those that
// one does.
func (m *Master) detail(targets []string, served func(*profile) []string) contract.Done {
	workers := 0
	found := make(map[string]bool, len(targets))
	for _, w := range m.registry.all() {
		of := served(w.profile.Load())
		for _, target := range of {
			found[target] = true
		}
		if len(of) > 0 {
			workers++
		}
	}
	detail := contract.Done{Workers: &workers}
	for _, target := range unique(targets) {
		if !found[target] {
			detail.Unserved = append(detail.Unserved, target)
		}
	}
	return detail
}
