package board

// About names the target of a job that is under way, and which attempt it is; "" where none is.
func (b *Board) About(id int64) (target string, attempt int) {
	if j := b.jobs[id]; j != nil {
		return j.target.name, j.attempt
	}
	return "", 0
}
