package main

import "testing"

// A table has something to tell while it is opened, when there is nobody yet to be told.
func TestNoticesBeforeAnybodyListensAreDropped(t *testing.T) {
	t.Parallel()
	var n notices
	n.serverMet()
	n.tableBack()
	n.givenBack([]string{"a"})
	n.changed()
	heard := 0
	n.connect(listeners{})
	n.tell(func(*listeners) { heard++ })
	if heard != 1 {
		t.Errorf("heard %d times, want once", heard)
	}
}
