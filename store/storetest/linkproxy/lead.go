package linkproxy

// Lead has new connections go to another address, as a router does after a failover. Those there
// are stay where they are.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// leadsTo is where new connections go.
func (p *Proxy) leadsTo() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Linger hides from the server that a client is gone, until the links are cut.
func (p *Proxy) Linger() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lingers = true
}

func (p *Proxy) lingering() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lingers
}
