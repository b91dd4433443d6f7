package store

// Inspection is what somebody who looks at a table and its server learns beside what is wrong with its layout.
type Inspection struct {
	Facts    []string // what is as it should be, in words
	Findings []Finding
}
