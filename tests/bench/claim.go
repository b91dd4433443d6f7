package main

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
)

// claimMillion is a claim with a million rows waiting, in turn with one with a thousand.
func claimMillion(p *program) []reading {
	const pairs = 40
	few, many := waiting(p, 1000), waiting(p, 1_000_000)
	few.claim(p)
	many.claim(p) // the first one examines the table
	return []reading{paired(pairs,
		func() float64 { return took(func() { few.claim(p) }) },
		func() float64 { return took(func() { many.claim(p) }) },
	)}
}

// table is a jobs table as the worker's claims see it.
type table struct{ *mysql.Table }

// waiting makes a table with so many rows waiting.
func waiting(p *program, rows int) table {
	s := newSite(p)
	s.insert(rows, "a", "waiting")
	s.Exec(p, "ANALYZE TABLE jobs")
	return s.table()
}

// table opens the site's table with the daemons' account.
func (s *site) table() table { return s.tableUsing(nil) }

// tableUsing opens it as a worker does that uses columns about time.
func (s *site) tableUsing(uses store.Uses) table {
	host, port, err := net.SplitHostPort(s.Addr)
	s.p.must(err)
	number, err := strconv.Atoi(port)
	s.p.must(err)
	opened, err := mysql.New(mysql.Config{
		Host: host, Port: number, User: s.Account.User, Password: s.Account.Password, Database: s.Name, Uses: uses,
		Logger: slog.New(slog.DiscardHandler),
	})
	s.p.must(err)
	s.p.Cleanup(func() { opened.Close() })
	server, err := opened.Server(context.Background())
	s.p.must(err)
	opened.Confirm(server)
	return table{opened}
}

// claim claims as a worker with ten slots does that has nothing.
func (t table) claim(p *program) {
	const room = 20
	claimed := 0
	err := t.Claim(context.Background(), map[string]int{"a": room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		events := make([]journal.Event, len(rows))
		for i, row := range rows {
			accepted := journal.Accepted{Target: "a", Token: token, Plan: row.Plan}
			if row.Plan != nil {
				accepted.PlannedAt = time.Now().Unix()
			}
			events[i] = journal.Event{Job: row.Job, Payload: accepted}
		}
		claimed = len(rows)
		return events, nil
	})
	p.must(err)
	if claimed != room {
		p.Fatalf("%d rows were claimed, not %d", claimed, room)
	}
}

// token is a claim's.
const token = "@abcdefghi"
