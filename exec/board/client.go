package board

// Wait notes that a client waits for each of some jobs. It fails, without having changed anything,
// where one is waited for already, which it names.
func (b *Board) Wait(ids []int64, clients map[int64]Client) (taken int64, ok bool) {
	for _, id := range ids {
		if _, waits := b.clients[id]; waits {
			return id, false
		}
	}
	for id, client := range clients {
		b.clients[id] = client
	}
	return 0, true
}

// Leave notes that clients wait no more, answered or not.
func (b *Board) Leave(ids []int64) {
	for _, id := range ids {
		delete(b.clients, id)
		if j, ok := b.jobs[id]; ok {
			j.client = nil
		}
	}
}

// Clients counts the jobs that clients wait for.
func (b *Board) Clients() int { return len(b.clients) }

// RefuseClients tells clients that their jobs are not run: all, or those whose jobs have no
// process.
func (b *Board) RefuseClients(all bool, why func(id int64) string) Effects {
	for id, client := range b.clients {
		if j := b.jobs[id]; all || j == nil || !j.hasProcess() {
			b.effects.Refusals = append(b.effects.Refusals, Refusal{Client: client, Job: id, Why: why(id), Whole: all})
		}
	}
	return b.follow()
}
