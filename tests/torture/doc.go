// Package torture looks at what breaks or lasts beyond what a schedule of package disorder can do to its sites:
// a failing fsync, clusters of servers, two masters, a job that kills its worker; and a year of planned times, attempts, unique keys, rates.
//
// A run is safe when each job was started at most once per claim and attempt, each row is at its end with the
// true outcome or says that it is unknown, nothing starts before its time by the server's clock, no row was
// added or removed, and the journal verifies.
//
// Tests have a short form, and a long one, chosen by TORTURE=long in the environment.
package torture
