// Package lifecycle takes the database away, stops, reconfigures and kills the daemons, and looks
// whether the promise holds: a job is started at most once per claim, every claim reaches a state that a person can
// see, and no poll that was acknowledged is forgotten. Its oracle is a file that the launcher appends to.
package lifecycle
