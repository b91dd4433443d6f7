// Package audit is an auditor's and an operator's work with journals: every journal command of jobctl on a week of
// generated history, and through real workers and a real master.
package audit
