// Package page asks the page of real daemons as browsers and programs do, over HTTP: who may see and do what, that
// nothing is done by who may not, and that what is shown is what the table and the journal have.
package page
