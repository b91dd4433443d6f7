package gearman

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"jobd/journal"
	"jobd/net/gearman"
)

// named is the intake of a table into which nothing is inserted: a function is a target, and the workload names one of
// its rows by its id.
type named struct {
	front *Front
	queue gathered
}

func newNamed(f *Front) *named {
	n := &named{front: f}
	n.queue = gathered{tasks: &f.tasks, take: n.read}
	return n
}

// Submit implements gearman.Intake.
func (n *named) Submit(s *gearman.Submission) { n.queue.add(s) }

// read looks at the rows that are named.
func (n *named) read(batch []*gearman.Submission) {
	var ids []int64
	for _, s := range batch {
		if id, err := strconv.ParseInt(string(s.Workload.Bytes), 10, 64); err == nil && id != 0 {
			ids = append(ids, id)
		}
	}
	rows := map[int64]journal.Row{}
	var found []journal.Row
	var err error
	if len(ids) > 0 {
		found, err = n.front.Rows(context.Background(), ids)
	}
	for _, row := range found {
		rows[row.Job] = row
	}
	for _, s := range batch {
		n.take(s, rows, err)
		s.Workload.Drop()
	}
}

// take has a row run that a client has named.
func (n *named) take(s *gearman.Submission, rows map[int64]journal.Row, err error) {
	id, _ := strconv.ParseInt(string(s.Workload.Bytes), 10, 64)
	row, found := rows[id]
	wanted := journal.RowManual
	if s.Background {
		wanted = journal.RowWaiting
	}
	why := ""
	switch {
	case err != nil:
		why = "the table can't be read: " + err.Error()
	case !n.front.Worker.Serves(s.Function):
		why = "no target " + s.Function + " is served here"
	case !found:
		why = "no row has this workload as its id, and nothing is inserted into this table"
	case row.Target != s.Function:
		why = fmt.Sprintf("job %d is not of target %s", id, s.Function)
	case row.Status != wanted:
		why = fmt.Sprintf("job %d is %s, and not %s", id, row.Status, wanted)
	case s.At != 0:
		why = "the time of a row of this table is its run_at"
	}
	if why != "" {
		s.Refused("no_such_row", why)
		return
	}
	s.Created(n.front.handle(id))
	if s.Background {
		n.front.Worker.GivenBack([]string{s.Function})
		return
	}
	n.front.tasks.Go(func() { n.run(s.From, id) })
}

// run runs a manual row for a client.
func (n *named) run(p *gearman.Peer, id int64) {
	handle := n.front.handle(id)
	var mu sync.Mutex // held while the client is sent something
	over := false
	n.front.outputs.follow(id, func(part []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(part) > 0 && !over {
			p.SendPayload(gearman.WorkData, gearman.Payload{Bytes: part}, handle)
		}
		return !over
	})
	answer, err := n.front.Worker.RunManual(p.Context(), []int64{id}, p.By())
	mu.Lock()
	defer mu.Unlock()
	if over = true; p.Context().Err() != nil {
		return // it is gone, and the job goes on
	}
	result, ran := answer.Jobs[id]
	if ran && result.Result == "ok" {
		p.SendPayload(gearman.WorkComplete, gearman.Payload{Bytes: []byte(result.Stdout)}, handle)
		return
	}
	why := answer.Errors[id]
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		p.SendPayload(gearman.WorkWarning, gearman.Payload{Bytes: []byte(why)}, handle)
	}
	p.Send(gearman.WorkFail, handle)
}

// Left implements gearman.Intake. What runs goes on.
func (n *named) Left(*gearman.Peer) {}

// Standing implements gearman.Intake.
func (n *named) Standing(ctx context.Context, q gearman.Question) (s gearman.Standing, err error) {
	id := n.front.idOf(q.Handle)
	if id == 0 {
		return s, nil
	}
	rows, err := n.front.Rows(ctx, []int64{id})
	if len(rows) == 1 && q.From.Reaches(rows[0].Target) {
		s.Running = rows[0].Status == journal.RowRunning
		s.Known = s.Running || rows[0].Status != journal.RowDone && rows[0].Status != journal.RowIgnored
	}
	return s, err
}
