package page

import (
	"net/http"
	"time"

	"jobd/net/api"
)

// How often a view is made anew while somebody looks at it.
const (
	soon  = 2 * time.Second
	later = 10 * time.Second
)

// aBeside is an answer that is no screen: what one of them asks for, or leads to.
type aBeside struct {
	path  string
	needs api.Kind
	serve func(*Page, http.ResponseWriter, *look) error
}

var besides = []aBeside{
	{"/jobs/{id}/output/{stream}", api.Output.Kind, (*Page).download},
	{"/journal/verify", api.Kinds[api.JournalVerify], (*Page).verify},
	{"/rates", api.Rates.Kind, (*Page).rates},
}

// screens are all that there is to see, in the order of the bar.
var screens []*aScreen

// How some of them were at a time.
var (
	targetsThen = &aScreen{title: "Targets", template: "targets-then", needs: api.Kinds[api.JournalState], view: targetsAt}
	jobsThen    = &aScreen{title: "Jobs", template: "jobs.html", needs: api.Kinds[api.JournalState], view: jobsAt}
	jobThen     = &aScreen{title: "Job", template: "job-then", needs: api.Kinds[api.JournalState], view: jobAt}
)

func init() { // a screen's view shows the bar, which has all screens
	screens = []*aScreen{
		{path: "/{$}", title: "Overview", nav: true, template: "front.html", needs: api.Status.Kind, live: soon, charts: true, view: frontView},
		{path: "/targets", title: "Targets", nav: true, template: "targets.html", needs: api.Status.Kind, live: soon, view: targetsView, then: targetsThen},
		{path: "/targets/{name}", title: "Target", template: "target.html", needs: api.Status.Kind, live: soon, charts: true, view: targetView},
		{path: "/jobs", title: "Jobs", nav: true, template: "jobs.html", needs: api.Jobs.Kind, view: jobsView, then: jobsThen},
		{path: "/jobs/{id}", title: "Job", template: "job.html", needs: api.Explain.Kind, live: soon, view: jobView, then: jobThen},
		{path: "/failed", title: "Failed", nav: true, template: "failed.html", needs: api.Kinds[api.JournalEvents], view: failedView},
		{path: "/schedules", title: "Schedules", nav: true, template: "schedules.html", needs: api.Recurring.Kind, view: schedulesView},
		{path: "/workers", title: "Workers", nav: true, template: "workers.html", needs: api.Status.Kind, live: soon, view: workersView},
		{path: "/workers/{name}", title: "Worker", template: "worker.html", needs: api.Status.Kind, live: soon, view: workerView},
		{path: "/timeline", title: "Timeline", nav: true, template: "timeline.html", needs: api.Jobs.Kind, live: later, view: timelineView},
		{path: "/journal", title: "Journal", nav: true, template: "journal.html", needs: api.Kinds[api.JournalEvents], view: journalView},
	}
}
