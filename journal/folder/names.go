package folder

// The files beside the segments in a journal's folder.
const (
	HeadFile     = "head"     // what was acknowledged
	LockFile     = "lock"     // held by the worker; names it
	ClockFile    = "clock"    // what the time line of ages said
	WaypointFile = "waypoint" // the state after an event of the newest segment
)
