package disorder

// fixedSeeds are tried each time.
var fixedSeeds = []uint64{1, 2, 3, 4, 5, 6, 7, 8}

// recorded are schedules that violated a rule once, as small as they could be made.
var recorded = []struct{ name, text string }{
	{"nothing at all", "insert a 3 quick; insert b 2 short; manual master a 2 quick; manual w1 b 1 quick; quiet; stop w1; start w1"},
}
