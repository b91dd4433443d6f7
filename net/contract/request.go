package contract

import (
	"errors"

	jobnet "jobd/net"
)

// Request is one request of the protocol: Q is its data, A the data of its answer.
type Request[Q, A any] struct {
	Name    string // its type on the wire
	Changes bool   // it changes something, so that a refusal is part of the history
	Slow    bool   // its answer waits for jobs or for other hosts: the requests behind it need not wait

	read func(data jobnet.Fields) (Q, error)
}

// Read reads the request's data as a peer sent it. Its error is a net.Refusal.
func (r Request[Q, A]) Read(data jobnet.Fields) (Q, error) {
	query, err := r.read(data)
	if err != nil {
		err = invalid(err)
	}
	return query, err
}

// invalid gives a refusal of a request's data its code, unless it has one.
func invalid(err error) error {
	var refusal jobnet.Refusal
	if jobnet.CodeOf(err) == jobnet.CodeRefused && errors.As(err, &refusal) {
		return refusal.With(jobnet.CodeInvalid)
	}
	return err
}

// None is the data of requests that have none: whatever comes is ignored.
type None struct{}

func readNone(jobnet.Fields) (None, error) { return None{}, nil }
