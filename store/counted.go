package store

// Counted is how many rows wait for a target.
type Counted struct {
	Rows   int
	More   bool  // there are more
	Oldest int64 // time_created of the row with the lowest id, in unix seconds; 0: none waits, or it does not say
}

// UpTo is what is told of rows that were counted one beyond a limit.
func (c Counted) UpTo(most int) Counted {
	c.More = c.Rows > most
	c.Rows = min(c.Rows, most)
	return c
}
