// Package storetest is the one suite of tests that every jobs table passes, whatever
// database it stands in. A backend's own tests call Run with a Fixture for fresh tables,
// and add what is particular to it. Package dbserver starts the servers for that, package
// linkproxy breaks the links to them.
package storetest
