package mysql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/dbserver"
)

const batch = 100

// benchmarkDatabase is a database on a server with its own defaults for durability.
func benchmarkDatabase(b *testing.B) *database {
	b.Helper()
	server, err := dbserver.Start(context.Background(), dbserver.Options{Durable: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	return newDatabaseOn(b, server, dbserver.JobsTable)
}

// fill replaces all rows by n of the given status and owner, with ids from 1.
func (d *database) fill(b *testing.B, n int, status, owner string) {
	b.Helper()
	d.exec(b, "TRUNCATE jobs")
	row := fmt.Sprintf("('a', 1, '%s', NULLIF('%s', ''))", status, owner)
	d.exec(b, "INSERT INTO jobs (target, time_created, status, sig) VALUES "+strings.Repeat(row+",", n-1)+row)
}

// One operation is a batch of 100 jobs that are done.
func BenchmarkApply(b *testing.B) {
	db := benchmarkDatabase(b)
	table := db.table(b)
	var changes []store.Change
	for id := range int64(batch) {
		changes = append(changes, done(id+1, "a line of output\n"))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		db.fill(b, batch, journal.RowRunning, token)
		b.StartTimer()
		if _, err := table.Apply(b.Context(), changes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "rows/s")
}

// One operation is a claim of 100 waiting jobs.
func BenchmarkClaim(b *testing.B) {
	db := benchmarkDatabase(b)
	table := db.table(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		db.fill(b, batch, journal.RowWaiting, "")
		b.StartTimer()
		if err := table.Claim(b.Context(), map[string]int{"a": batch}, nil, accept); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "rows/s")
}
