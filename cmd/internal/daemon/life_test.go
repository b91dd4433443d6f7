package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/daemon"
	"jobd/store/storetest/stall"
)

// working is an actor that tells when its context has ended, and returns when it is let.
type working struct {
	ended chan struct{}
	end   chan error
}

func newWorking() working { return working{make(chan struct{}), make(chan error, 1)} }

func (w working) run(ctx context.Context) error {
	<-ctx.Done()
	close(w.ended)
	return <-w.end
}

// live runs actors, one a stage, and gives what Run returns.
func live(t *testing.T, life daemon.Life, caught chan os.Signal, actors ...daemon.Actor) <-chan error {
	t.Helper()
	stall.Limit(t)
	for _, actor := range actors {
		life.Stages = append(life.Stages, []daemon.Actor{actor})
	}
	life.Log = slog.New(slog.DiscardHandler)
	over := make(chan error, 1)
	go func() { over <- life.Run(caught) }()
	return over
}

// What serves others ends when they have, and the signals meanwhile are heeded.
func TestStagesEndOneAfterTheOther(t *testing.T) {
	t.Parallel()
	first, second, caught := newWorking(), newWorking(), make(chan os.Signal)
	reloaded, hurried := make(chan struct{}), make(chan struct{})
	over := live(t, daemon.Life{
		Ending: daemon.NewEnding(),
		Reload: func() { reloaded <- struct{}{} }, Hurry: func() { hurried <- struct{}{} },
	}, caught, first.run, second.run)
	caught <- unix.SIGHUP
	<-reloaded
	caught <- unix.SIGTERM
	<-first.ended
	caught <- unix.SIGHUP
	<-reloaded
	caught <- unix.SIGINT
	<-hurried
	select {
	case <-second.ended:
		t.Error("the second stage ended before the first")
	default:
	}
	first.end <- nil
	<-second.ended
	second.end <- errors.New("too late to count")
	if err := <-over; err != nil {
		t.Errorf("error %v, want none: the first actor returned none", err)
	}
}

func TestAnActorThatReturnsEndsTheOthers(t *testing.T) {
	t.Parallel()
	want := errors.New("it broke")
	first := newWorking()
	first.end <- errors.New("by the other's end")
	over := live(t, daemon.Life{Ending: daemon.NewEnding()}, nil, first.run, func(context.Context) error { return want })
	if err := <-over; !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
