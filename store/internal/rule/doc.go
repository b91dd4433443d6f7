// Package rule holds what every jobs table does alike, whatever its SQL: which rows a claim's
// drafts may change and how, what a change must say, what it means that
// an update met no row, and how updates that fail together are taken apart.
package rule
