package page

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// recurs is a row that recurs.
type recurs struct {
	operator.Recurring
	Words string
	Next  string
	Times []time.Time // the next ones
	Late  string
	Tone  string
}

// schedulesView is /schedules.
func schedulesView(l *look) (any, error) {
	target := l.value("target")
	targets, _, err := l.choices(target)
	if err != nil {
		return nil, err
	}
	var after *jobnet.Whole
	if text := l.Query("after"); text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, badQuery("after = %s is not allowed; allowed: the id of a row", screen.Clean(text))
		}
		after = (*jobnet.Whole)(&id)
	}
	all, errs, err := operator.Recur(l.ctx, l.Daemon(), target, after, mostListed)
	if err != nil {
		return nil, err
	}
	l.noteAll(errs)
	shown := struct {
		Target  string
		Targets []string
		Rows    []recurs
		Next    string // the address of those behind; "": there are none
	}{Target: target, Targets: targets}
	if len(all) == mostListed {
		shown.Next = l.With("after", fmt.Sprint(all[len(all)-1].Job))
	}
	for _, row := range all {
		one := recurs{Recurring: row, Words: row.Words(), Times: row.NextTimes(l.now, 5)}
		when, next := row.NextText(l.clock())
		one.Next = strings.TrimSpace(when + " " + next)
		if late, known := row.Late(); known {
			one.Late = screen.Length(late)
		}
		if row.Result != "" && row.Result != "ok" {
			one.Tone = "bad"
		}
		shown.Rows = append(shown.Rows, one)
	}
	return shown, nil
}

// replan has the plan of the job of the address changed by hand.
func (l *look) replan(request, done, said string) ([]string, error) {
	job, err := l.theJob()
	if err != nil {
		return nil, err
	}
	workers, _, err := l.Daemon().Workers(l.ctx)
	if err != nil {
		return nil, err
	}
	planned, errs, err := operator.Replan(l.ctx, &operator.Journals{Workers: workers}, request, done, []operator.Job{job})
	if err != nil {
		return nil, err
	}
	if why, refused := planned.Errors[job.ID]; refused {
		return nil, refuse(409, "%v", operator.JobError(job.ID, why))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf(said, job.ID)}, nil
}

func runNow(l *look) ([]string, error) {
	return l.replan(api.RunNow.Name, "made due", "Job %d is due now, and runs as soon as there is a slot.")
}

func pauseSchedule(l *look) ([]string, error) {
	return l.replan(api.PauseSchedule.Name, "paused", "The schedule of job %d is paused: it is due at no time, until it is continued.")
}

func continueSchedule(l *look) ([]string, error) {
	return l.replan(api.ContinueSchedule.Name, "continued", "The schedule of job %d goes on.")
}
