package master

import "slices"

// names is a list of names, each once, in the order in which they came. The zero value is empty.
type names struct {
	list  []string
	in    map[string]bool
	bytes int
}

func (n *names) add(names []string) {
	if n.in == nil && len(names) > 0 {
		n.in = make(map[string]bool)
	}
	for _, name := range names {
		if !n.in[name] {
			n.in[name] = true
			n.list = append(n.list, name)
			n.bytes += len(name)
		}
	}
}

// takeIf removes the names that are wanted.
func (n *names) takeIf(wanted func(string) bool) {
	n.list = slices.DeleteFunc(n.list, func(name string) bool {
		if !wanted(name) {
			return false
		}
		n.forget(name)
		return true
	})
}

// takeAll removes and gives all names; nil where there are none.
func (n *names) takeAll() []string {
	all := n.list
	*n = names{}
	return all
}

// trim drops the oldest names until there are at most count, of at most bytes bytes. It gives
// those.
func (n *names) trim(count, bytes int) []string {
	drop := 0
	for len(n.list)-drop > count || n.bytes > bytes {
		n.forget(n.list[drop])
		drop++
	}
	dropped := slices.Clone(n.list[:drop])
	n.list = slices.Delete(n.list, 0, drop)
	return dropped
}

func (n *names) forget(name string) {
	delete(n.in, name)
	n.bytes -= len(name)
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// unique is a list without its repetitions.
func unique(list []string) []string {
	var n names
	n.add(list)
	return n.list
}
