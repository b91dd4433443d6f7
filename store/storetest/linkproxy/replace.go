package linkproxy

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Replacement is a text that does not pass the proxy.
type Replacement struct {
	text, by []byte
	met      atomic.Int64
}

// Met is how many packets had the text.
func (r *Replacement) Met() int64 { return r.met.Load() }

// Replace makes the proxy replace a text by another one, in both directions, so that a server seems
// to be one that it is not. Both have the same length: packets say how long they are. A text in two
// packets passes.
func (p *Proxy) Replace(text, by string) (*Replacement, error) {
	if len(text) != len(by) || text == "" {
		return nil, fmt.Errorf("replace %q by %q: their lengths differ, or they are empty", text, by)
	}
	r := &Replacement{text: []byte(text), by: []byte(by)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replacements = append(p.replacements, r)
	return r, nil
}

// rewrite does the replacements in a packet.
func (p *Proxy) rewrite(packet []byte) {
	p.mu.Lock()
	replacements := p.replacements
	p.mu.Unlock()
	for _, r := range replacements {
		if !bytes.Contains(packet, r.text) {
			continue
		}
		r.met.Add(1)
		copy(packet, bytes.ReplaceAll(packet, r.text, r.by))
	}
}
