// Package architecture keeps the promises that the compiler does not: which package may import
// which (the table in docs/architecture.md), which program links which driver, that what is
// exported is used elsewhere, that every package says what it is for, that files stay small and
// tests never sleep, and that the pages' links, lists and lines are in order. It reads the sources
// of all modules of the repository and needs no server.
package architecture
