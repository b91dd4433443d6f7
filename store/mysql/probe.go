package mysql

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// probeToken looks like a claim's token and is none.
const probeToken = "@" + "000000000"

// Probe implements store.Table.
func (t *Table) Probe(ctx context.Context, ids []int64) (refused map[int64]string, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	refused, err = t.probe(ctx, []rule.Verdict{
		{Status: journal.RowAccepted, Token: probeToken, Jobs: ids},
		{Status: journal.RowRunning, Token: probeToken, Start: time.Now().Unix(), Jobs: ids},
	})
	return refused, t.fail("try jobs one by one", err)
}

// probe tries what a claim makes of its rows, row by row, and undoes it.
func (t *Table) probe(ctx context.Context, verdicts []rule.Verdict) (map[int64]string, error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.learnKey(ctx); err != nil {
		return nil, err
	}
	refused := map[int64]string{}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (bool, error) {
			return false, t.impatient(ctx, conn, func() error {
				return t.probeAll(ctx, conn, found, verdicts, refused)
			})
		})
	})
	return refused, err
}

func (t *Table) probeAll(ctx context.Context, conn *sql.Conn, found *layout, verdicts []rule.Verdict, refused map[int64]string) error {
	for _, verdict := range verdicts {
		free, err := t.free(ctx, conn, found, verdict.Jobs)
		if err != nil {
			return err
		}
		for _, id := range free {
			if refused[id] != "" {
				continue
			}
			single := verdict
			single.Jobs = []int64{id}
			why, err := t.probeOne(ctx, conn, t.update(single))
			switch {
			case err != nil:
				return err
			case why != "":
				refused[id] = why
			}
		}
	}
	return nil
}

// probeOne tries an update and undoes it; why is the server's word against it, "" where it takes it. What looks like a lost race
// is one unless it repeats.
func (t *Table) probeOne(ctx context.Context, conn *sql.Conn, one statement) (why string, err error) {
	const races = 3
	for range races {
		_, err = sendPacket(ctx, conn, []statement{{query: begin}, one, {query: "ROLLBACK; "}})
		if number(err) == 0 {
			return "", err
		}
		failure := err
		why = failure.Error()
		if _, err = conn.ExecContext(ctx, "ROLLBACK"); err != nil || !isTransient(failure) {
			break
		}
	}
	return why, err
}

// impatient is work during which the server does not wait for locks longer than it must.
func (t *Table) impatient(ctx context.Context, conn *sql.Conn, work func() error) error {
	const variable = "innodb_lock_wait_timeout"
	var usual int
	if err := conn.QueryRowContext(ctx, "SELECT @@SESSION."+variable).Scan(&usual); err != nil {
		return err
	}
	if usual <= shortWait {
		return work()
	}
	set := func(ctx context.Context, seconds int) error {
		_, err := conn.ExecContext(ctx, "SET SESSION "+variable+" = "+strconv.Itoa(seconds))
		return err
	}
	if err := set(ctx, shortWait); err != nil {
		return err
	}
	err := work()
	if set(context.WithoutCancel(ctx), usual) != nil {
		discard(conn)
	}
	return err
}
