package disorder

// fixedSeeds are tried each time; the last ones violated a rule once.
var fixedSeeds = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 2221, 4142, 6022}

// recorded are schedules that violated a rule once, as small as they could be made.
var recorded = []struct{ name, text string }{
	{
		"a job whose row is locked before it is shown as running keeps no slot",
		"slots = 1; pause w2 a; insert a 2 long; wait 300; continue w2 a; lock 0 1; wait 1000; insert a 3 quick; quiet",
	},
	{"a row that could not be ignored", "refuse 1644 claim 1 0; manual w1 c 1 quick; wait 1000"},
	{"nothing odd", "insert a 3 quick; insert b 2 short; manual master a 2 quick; manual w1 b 1 quick; quiet; stop w1; start w1"},

	// Wake-ups.
	{"locked while it is poked for", "insert-locked a 4; wait 300; quiet"},
	{"locked behind a small window", "fetch = 1; prefetch = 0; insert-locked a 4; wait 300; quiet"},
	{"poked before the commit", "late a 3; wait 300; commit; poke a; quiet"},
	{"given back by a worker that stops", "slots = 1; prefetch = 3; pause w2 a; insert a 4 long; wait 300; continue w2 a; stop w1; quiet"},
	{"given back by a pause", "slots = 1; prefetch = 3; insert a 6 long; wait 100; pause w1 a; quiet"},
	{"stopped while the table is away", "slots = 1; prefetch = 3; insert a 6 long; wait 100; cut-table w1; stop w1; wait 300; heal-table w1; start w1"},
	{"inserted while the master is down", "kill-master; insert a 3 quick; start-master; quiet"},
	{"poked over deaf lines", "deafen-line w1; deafen-line w2; insert a 3 quick; wait 300"},
	{"taken away and given again while busy", "slots = 1; insert a 6 short; wait 100; reload w1 b 1; reload w1 ab 1; wait 300; quiet"},
	{"killed behind a frozen link", "freeze-table w1; insert a 4 short; wait 300; kill w1; start w1; wait 300"},
	{"spelled otherwise", "spelling = shouted; pause w1 a; insert a 3 quick; insert b 3 quick; manual w2 a 2 quick; quiet"},
	{"eight kills", "workers = 3; insert a 6 short; kill w1; insert a 6 short; start w1; kill w2; insert b 6 short; kill w1; start w2; kill w3; start w1; start w3; quiet"},

	// Pauses.
	{"paused while the table is frozen", "slots = 1; prefetch = 3; insert a 6 short; wait 100; freeze-table w1; wait 300; pause w1 a; wait 1000; heal-table w1; wait 300"},

	// One row holds up no other.
	{"refused when claimed", "refuse 4025 claim 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused at its end", "refuse 4025 end 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused with 1146", "refuse 1146 any 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused as a deadlock", "refuse 1213 any 2 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"refused as a lock wait", "refuse 1205 any 3 1; insert a 6 quick; insert b 2 quick; quiet"},
	{"locked while it runs", "insert a 4 short; wait 20; lock 0 2; insert b 4 quick; quiet; insert a 2 quick; quiet"},
	{"locked while clients wait", "manual w1 a 2 long; wait 300; lock 0 2; wait 1000; insert a 3 quick; insert b 3 quick; quiet"},
	{"no time of its end", "insert a 2 long; wait 300; null 0 time_finished; null 1 time_started; insert a 3 quick; quiet; kill w1; start w1"},
	{"no target any more", "insert a 2 long; wait 300; null 0 target; insert a 3 quick; quiet; kill w1; start w1"},

	// Old knowledge.
	{"reset while it runs, and the server restarted", "insert a 2 long; wait 300; reset 0; poke a; restart-server; wait 300; quiet"},
	{"asked for over a deaf line", "deafen-line w1; deafen-line w2; manual master a 2 quick; wait 300"},
	{"registered a second time", "deafen-line w1; wait 100; heal-line w1; insert a 2 quick; manual master a 2 quick; quiet"},
}
