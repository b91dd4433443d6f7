// Package sightings has one test for each way in which the engine was once seen to strand rows, to hold
// them up or to run them twice, from outside and with whole daemons: real processes, a real database whose
// account may SELECT and UPDATE, real sockets. Nothing polls periodically: poll_interval is 0,
// and tests poll only where an operator or an application would. What counts is how many rows got
// where, and what happened after what; times are upper bounds only.
package sightings
