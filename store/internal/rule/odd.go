package rule

import (
	"strconv"
	"sync"
)

// Odd remembers rows whose ids are no ids to us, so that each is told once. Its zero value is
// ready, and its methods are safe for concurrent use.
type Odd struct {
	mu    sync.Mutex
	ids   []string
	told  map[string]bool
	crowd bool // there are more than are remembered
}

// oddLimit is how many ids are remembered one by one.
const oddLimit = 256

// Report tells a row once, and remembers it.
func (o *Odd) Report(id, target string, tell func(row, target, reason string)) {
	if o.add(id) && tell != nil {
		tell(id, target, "its id is "+id+": only rows with whole numbers from 1 to 9223372036854775807 as their ids are run")
	}
}

func (o *Odd) add(id string) (added bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.told[id]:
		return false
	case len(o.ids) >= oddLimit:
		o.crowd = true
		return false
	case o.told == nil:
		o.told = map[string]bool{}
	}
	o.told[id] = true
	o.ids = append(o.ids, id)
	return true
}

// Known gives the ids that were reported, as SQL takes them. Where crowd is true there are more
// than that, or some that are no numbers, and all have to be kept out by a condition on the id.
func (o *Odd) Known() (ids []string, crowd bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	crowd = o.crowd
	for _, id := range o.ids {
		_, signed := strconv.ParseInt(id, 10, 64)
		_, unsigned := strconv.ParseUint(id, 10, 64)
		if signed != nil && unsigned != nil {
			crowd = true
			continue
		}
		ids = append(ids, id)
	}
	return ids, crowd
}
