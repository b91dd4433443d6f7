// Package monitoring has a real Prometheus scrape real daemons: what they tell is what the
// documentation, the dashboard and the alerts say that it is, and each alert fires where it should.
package monitoring
