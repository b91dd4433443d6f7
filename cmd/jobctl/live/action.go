package live

import (
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
)

// question is what a person has to say yes to before it is done. It names what it is about, so that
// rows that move meanwhile change nothing.
type question struct {
	text   string
	action Action
}

// done is the message that an action was answered.
type done struct {
	action Action
	answer string
	err    error
}

// words are what an action is called: when it is asked for, under way, and done.
func (a Action) words() (wanted, underWay string) {
	job := fmt.Sprintf("job %s of %s", id(a.Job.Job), a.Job.Target)
	if a.Job.Worker != "" {
		job += " on " + a.Job.Worker
	}
	switch a.Kind {
	case Pause:
		return "pause " + a.Target, "pausing " + a.Target
	case Continue:
		return "continue " + a.Target, "continuing " + a.Target
	case Poke:
		return "poke " + a.Target, "poking " + a.Target
	}
	return "cancel " + job, "cancelling " + job
}

// askTarget asks whether something is to be done with the chosen target.
func (m *model) askTarget(kind ActionKind) {
	if target, ok := m.needTarget(); ok && m.free() {
		action := Action{Kind: kind, Target: target}
		wanted, _ := action.words()
		if m.config.Master {
			wanted += " on all workers"
		}
		m.question = &question{wanted + "?", action}
	}
}

// askCancel does the same with the chosen job, which may be cancelled.
func (m *model) askCancel() {
	job, ok := m.needJob()
	if !ok || !m.free() {
		return
	}
	action := Action{Kind: Cancel, Target: job.Target, Job: job}
	wanted, _ := action.words()
	if job.PID > 0 {
		wanted += fmt.Sprintf(", process %d", job.PID)
	}
	m.question = &question{wanted + "?", action}
}

// free tells whether an action may begin: one is under way at a time.
func (m *model) free() bool {
	if m.doing != "" {
		m.say(true, "wait for the answer: "+m.doing)
	}
	return m.doing == ""
}

// decide takes the answer to the question. Any other key asks on.
func (m *model) decide(key string) tea.Cmd {
	switch key {
	case "y", "Y":
		action := m.question.action
		m.question = nil
		return m.do(action)
	case "n", "N", "esc", "q":
		m.question = nil
		m.say(false, "nothing was done")
	}
	return nil
}

// do carries an action out, beside everything else.
func (m *model) do(action Action) tea.Cmd {
	if !m.free() {
		return nil
	}
	_, m.doing = action.words()
	return func() tea.Msg {
		answer, err := m.config.Source.Do(m.ctx, action)
		return done{action, answer, err}
	}
}

// ended says what came of an action, and has everything asked for anew, so that it is seen.
func (m *model) ended(d done) {
	wanted, _ := d.action.words()
	m.doing = ""
	m.fleet.begun, m.running.begun = time.Time{}, time.Time{}
	if d.err != nil {
		m.say(true, fmt.Sprintf("%s: %v", wanted, d.err))
	} else {
		m.say(false, fmt.Sprintf("%s: %s", wanted, d.answer))
	}
}
