// Package pressure asks for more than a worker or a master can do: backlogs while the database is away, clients that ask for too much or
// never read, disks that are full, launchers that never end. Nothing may grow without bound, and nobody may be
// left out. Tests count (rows claimed, events owed, descriptors, goroutines, bytes); they never measure time.
package pressure
