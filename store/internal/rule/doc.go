// Package rule holds what every jobs table does alike, whatever its SQL: which rows a claim's
// drafts may change and how, what a change must say, and what it means that
// an update met no row.
package rule
