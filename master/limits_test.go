package master

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func jsonOf(t testing.TB, value any) string {
	t.Helper()
	text := must.Get(json.Marshal(value))(t)
	return string(text)
}

func manyJobs(n int, target func(i int) string) string {
	jobs := make([]map[string]any, n)
	for i := range jobs {
		jobs[i] = map[string]any{"id": i + 1, "signal": 0, "target": target(i)}
	}
	text, _ := json.Marshal(map[string]any{"jobs": jobs})
	return string(text)
}

// A request for too large a number is refused, with the limit; one within it is not.
func TestNumbersAreLimited(t *testing.T) {
	t.Parallel()
	long, longest := strings.Repeat("x", 256), strings.Repeat("x", 255)
	a := func(int) string { return "a" }
	tests := []struct{ name, typ, data, want string }{
		{
			"targets of a worker", "register-worker", `{"name":"w","targets":` + jsonOf(t, numbered("t", 10_001)) + `}`,
			"too many targets: at most 10000 are allowed",
		},
		{"a long name", "register-worker", `{"name":"` + long + `","targets":["a"]}`, "the name is too long: at most 255 bytes are allowed"},
		{"a long target", "register-worker", `{"name":"w","targets":["` + long + `"]}`, "a target is too long: at most 255 bytes are allowed"},
		{
			"a long instance", "register-worker", `{"name":"w","targets":["a"],"instance":"` + strings.Repeat(long, 5) + `"}`,
			"the instance is too long: at most 1024 bytes are allowed",
		},
		{
			"a long registration", "register-worker", `{"name":"w","targets":["a"],"x":"` + strings.Repeat("x", 4<<20) + `"}`,
			"the registration is too long: at most 4194304 bytes are allowed",
		},
		{"targets of a poke", "poke", `{"targets":` + jsonOf(t, numbered("t", 10_001)) + `}`, "too many targets: at most 10000 are allowed"},
		{"the most targets of a poke", "poke", `{"targets":` + jsonOf(t, numbered("t", 10_000)) + `}`, `"ok"`},
		{"a long target of a poke", "poke", `{"targets":["` + long + `"]}`, "a target is too long: at most 255 bytes are allowed"},
		{"the longest target of a poke", "poke", `{"targets":["` + longest + `"]}`, `"ok"`},
		{"targets of a pause", "pause", `{"targets":` + jsonOf(t, numbered("t", 10_001)) + `}`, "too many targets: at most 10000 are allowed"},
		{"jobs", "run-manual", manyJobs(100_001, a), "too many jobs: at most 100000 are allowed"},
		{"jobs of a signal", "send-signal", manyJobs(100_001, a), "too many jobs: at most 100000 are allowed"},
		{"targets of jobs", "run-manual", manyJobs(10_001, func(i int) string { return fmt.Sprint(i) }), "too many targets: at most 10000 are allowed"},
		{"a long target of a job", "send-signal", manyJobs(1, func(int) string { return long }), "a target is too long: at most 255 bytes are allowed"},
		{
			"a long request about journals", "journal-next", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`,
			"the request is too long: at most 1048576 bytes are allowed",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				check.Equal(t, newBubble(t, Config{}).do(test.typ, test.data), test.want, "answer")
			})
		})
	}
}

// All workers together are bounded too, in number and in what their targets take.
func TestWorkersAreLimited(t *testing.T) {
	t.Parallel()
	var many registry
	small := newProfile(api.Registration{Name: "w", Targets: []string{"a"}})
	for range mostWorkers {
		if _, _, err := many.put(new(jobnet.Link), small); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := many.put(new(jobnet.Link), small); err == nil || err.Error() != "too many workers: at most 10000 may be registered" {
		t.Errorf("error %v", err)
	}

	var large registry
	big := newProfile(api.Registration{Name: "w", Targets: numbered("x", api.MostTargets)})
	big.leaving = true // these links have no address
	var last *jobnet.Link
	taken := 0
	for ; taken < mostWorkers; taken++ {
		link := new(jobnet.Link)
		if _, _, err := large.put(link, big); err != nil {
			if want := "too many targets of all workers: at most 300000 are allowed, and this worker has 10000"; err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
			break
		}
		last = link
	}
	check.Equal(t, taken, mostTargetsOfAll/api.MostTargets, "large workers were registered")
	if _, _, err := large.put(last, big); err != nil {
		t.Errorf("a worker that registers again takes no more than before: %v", err)
	}
	for _, w := range large.all() {
		large.remove(w)
		large.remove(w) // has left already
	}
	if large.targets != 0 || len(large.byLink) != 0 || len(large.byInstance) != 0 {
		t.Errorf("of no worker are left %d targets, %d links", large.targets, len(large.byLink))
	}
}

// One client can't wait for more jobs than others may have left; a few are always taken.
func TestJobsThatClientsWaitForAreLimited(t *testing.T) {
	t.Parallel()
	var c clients
	for range mostJobsOfAll / mostJobs {
		from, _ := c.enter(new(jobnet.Link))
		must.Do(t, c.take(from, mostJobs))
		if err := c.take(from, 1); err == nil || err.Error() !=
			"too many jobs: a connection may wait for at most 100000 at once, and waits for 100000" {
			t.Errorf("error %v", err)
		}
	}
	link := new(jobnet.Link)
	other, leave := c.enter(link)
	if err := c.take(other, freeJobs+1); err == nil || err.Error() !=
		"too many jobs: all clients together may wait for at most 1000000 at once, and wait for 1000000" {
		t.Errorf("error %v", err)
	}
	check.Do(t, c.take(other, freeJobs))
	c.give(other, freeJobs)
	leave()
	if c.of[link] != nil || c.jobs != mostJobsOfAll {
		t.Error("a client that has nothing under way is remembered")
	}
}

// A client's request is made JSON once, however many workers get it, and has nothing in it that
// they can't use.
func TestWorkersGetOnlyWhatTheyCanUse(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	var got atomic.Int64
	handlers := make(map[string]jobnet.Handler)
	for _, typ := range []string{"pause", "send-signal", "run-manual", "status", "poll"} {
		handlers[typ] = func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			got.Add(int64(len(request.Data)))
			return json.RawMessage(`{}`), nil
		}
	}
	const workers = 10
	for i := range workers {
		registered(t, address, fmt.Sprint("w", i), []string{"a"}, handlers)
	}
	client := clientOf(t, address)
	ask(t, client, "status", nil) // a long message needs the password before it
	unused := `,"x":"` + strings.Repeat("x", 10<<20) + `"}`
	for typ, data := range map[string]string{
		"pause":       `{"targets":["a"]`,
		"send-signal": `{"jobs":[{"id":1,"signal":0,"target":"a"}]`,
		"run-manual":  `{"jobs":[{"id":1,"target":"a"}]`,
		"status":      `{"poll_workers":true`,
		"poke":        `{"targets":["a"]`,
	} {
		ask(t, client, typ, json.RawMessage(data+unused))
	}
	if bytes := got.Load(); bytes > 100*5*workers {
		t.Errorf("the workers got %d bytes", bytes)
	}
}

// What was taken for a request is given back with its end, whatever became of it.
func TestNothingIsHeldAfterARequest(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	client := clientOf(t, address)
	ask(t, client, "status", nil)
	long := json.RawMessage(`{"x":"` + strings.Repeat("x", 500_000) + `"}`)
	ask(t, client, "journal-close", long) // nobody is there
	worker := registered(t, address, "w", []string{"a"}, map[string]jobnet.Handler{"journal-close": hang})
	go func() { _, _ = client.Request(within(t), "journal-close", long) }()
	until(t, "it is under way", func() bool { return !allFree(m) })
	_ = worker.Close()
	ask(t, client, "journal-close", long)
	until(t, "all is free", func() bool { return allFree(m) })
}

func allFree(m *Master) bool {
	free := m.forwarded.TryAcquire(forwardedBytes)
	if free {
		m.forwarded.Release(forwardedBytes)
	}
	return free
}

// The answers of workers that the master keeps are bounded for each client, and for all of them.
func TestKeptAnswersAreBounded(t *testing.T) {
	t.Parallel()
	m := New(Config{})
	part := make([]byte, mostAnswerBytes/4)
	var rounds []*round
	for range mostKeptBytes / mostAnswerBytes {
		r := &round{Master: m}
		rounds = append(rounds, r)
		for range 4 {
			must.Do(t, r.keep(part))
		}
		check.ErrorIs(t, r.keep(part[:1]), errTooMuch, "one byte more of a client")
	}
	late := &round{Master: m}
	check.ErrorIs(t, late.keep(part[:1]), errTooMuchOfAll, "one byte more of all clients")
	rounds[0].release()
	check.Do(t, late.keep(part), "after a client has its answer")
	for _, r := range append(rounds, late) {
		r.release()
		r.release() // twice is once
	}
	check.Equal(t, m.answers.Load(), 0, "bytes are counted at the end")
}
