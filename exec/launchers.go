package exec

// LaunchersOf are the commands, word by word, of targets whose terms have a launcher of their own;
// nil where there is none.
func LaunchersOf(terms map[string]Terms) map[string][]string {
	var all map[string][]string
	for name, of := range terms {
		if of.Launcher != nil {
			if all == nil {
				all = map[string][]string{}
			}
			all[name] = of.Launcher.Words
		}
	}
	return all
}
