// Package sightings has what was once seen to go wrong in the engine and shows itself only with whole
// daemons: a failover, two workers of one name, a killed worker behind a proxy, a row that the table
// refuses, a table that is another file. The other sightings are recorded schedules of package disorder.
package sightings
