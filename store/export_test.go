package store

// First is the oldest event that went into a change.
func (c Change) First() uint64 { return c.first }

// Target is the target of the change's claim.
func (c Change) Target() string { return c.target }
