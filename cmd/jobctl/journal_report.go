package main

import "errors"

// report is how journal commands print what they find, item by item: as JSON, one a line, or as
// rows of a table, with the worker in front where there are several.
type report struct {
	*program
	table   *table
	workers bool // rows begin with the worker's name
	count   uint64
}

// cutAt names the columns of a report that a narrow terminal cuts.
func (r *report) cutAt(heads string) *report {
	r.table.elastic = heads
	return r
}

// report begins a report; none is said on a terminal where nothing is found.
func (p *program) report(workers bool, none string, head ...string) *report {
	if workers {
		head = append([]string{"WORKER"}, head...)
	}
	r := &report{program: p, table: p.stream(head...), workers: workers}
	r.table.none = none
	return r
}

// add prints an item of a worker: its JSON form, or the values of its row.
func (r *report) add(worker string, form any, tone tone, values ...any) error {
	r.count++
	if r.json() {
		return r.printJSON(form)
	}
	if r.workers {
		values = append([]any{worker}, values...)
	}
	return r.table.put(tone, values...)
}

// end prints what is left; err is why there is no more, or nil. What was found before an error is
// printed as well, but that nothing was found is said only of a report that is complete.
func (r *report) end(err error) error {
	if r.json() || err != nil && r.count == 0 {
		return err
	}
	return errors.Join(r.table.end(), err)
}
