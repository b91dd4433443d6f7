package mysql_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

const batch = 100

// benchmarkDatabase is a database on a server with its own defaults for durability.
func benchmarkDatabase(b *testing.B) *database {
	b.Helper()
	server := must.Get(dbserver.Start(context.Background(), dbserver.Options{Durable: true}))(b)
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
		must.Get(table.Apply(b.Context(), changes))(b)
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "rows/s")
}

// One operation is a thousand waiting jobs of one target claimed by eight workers, ten at a time,
// whose decisions are made durable, with SKIP LOCKED and without.
func BenchmarkEightClaimers(b *testing.B) {
	const workers, rows, room = 8, 1000, 10
	for _, version := range []string{"10.11.6-MariaDB", "10.5.29-MariaDB"} {
		b.Run(version, func(b *testing.B) {
			db := benchmarkDatabase(b)
			var tables []*mysql.Table
			for range workers {
				table := db.table(b)
				must.Do(b, table.Pretend(version))
				tables = append(tables, table)
			}
			for b.Loop() {
				b.StopTimer()
				db.fill(b, rows, journal.RowWaiting, "")
				b.StartTimer()
				var all sync.WaitGroup
				for _, table := range tables {
					all.Go(func() { drain(b, table, room) })
				}
				all.Wait()
			}
			b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// drain claims until no row waits. Each decision is written and flushed, as the journal does.
func drain(b *testing.B, table store.Table, room int) {
	file, err := os.Create(filepath.Join(b.TempDir(), "decisions"))
	if err != nil {
		b.Error(err)
		return
	}
	defer file.Close()
	for {
		err := table.Claim(b.Context(), map[string]int{"a": room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			if _, err := file.WriteString(strings.Repeat("accepted\n", len(rows))); err != nil {
				return nil, err
			}
			if err := file.Sync(); err != nil {
				return nil, err
			}
			return accept(rows)
		})
		waiting := []string{}
		if err == nil {
			waiting, err = table.Waiting(b.Context(), []string{"a"}, nil)
		}
		if err != nil {
			b.Error(err)
		}
		if len(waiting) == 0 {
			return
		}
	}
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
		must.Do(b, table.Claim(b.Context(), map[string]int{"a": batch}, nil, accept))
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "rows/s")
}
