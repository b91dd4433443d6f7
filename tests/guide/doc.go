// Package guide runs the script of the pages for operators that deletes old rows, beside a worker that is
// busy. (The statements of all pages are tried by package documents.)
package guide
