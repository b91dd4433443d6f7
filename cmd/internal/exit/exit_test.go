package exit_test

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
)

func TestReport(t *testing.T) {
	t.Parallel()
	refused := errors.New("dial 127.0.0.1:7080: connection refused")
	for name, test := range map[string]struct {
		err  error
		code int
		text string
	}{
		"no error":        {nil, 0, ""},
		"help was shown":  {exit.With(exit.Success, flag.ErrHelp), 0, ""},
		"any other error": {refused, 1, "jobctl: dial 127.0.0.1:7080: connection refused\n"},
		"could not connect, wrapped": {
			fmt.Errorf("status: %w", exit.With(exit.Connect, refused)), 3,
			"jobctl: status: dial 127.0.0.1:7080: connection refused\n",
		},
		"several errors, a line each": {
			exit.With(exit.Usage, errors.Join(errors.New("a"), errors.New("b"))), 2,
			"jobctl: a\njobctl: b\n",
		},
		"one error twice":   {errors.Join(refused, errors.New("b"), refused), 1, "jobctl: dial 127.0.0.1:7080: connection refused\njobctl: b\n"},
		"code without text": {exit.With(exit.Failure, errors.New("")), 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if code := exit.Report(&out, "jobctl", test.err); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if out.String() != test.text {
				t.Errorf("wrote %q, want %q", out.String(), test.text)
			}
		})
	}
}

func TestWithKeepsNil(t *testing.T) {
	t.Parallel()
	if err := exit.With(exit.Usage, nil); err != nil {
		t.Errorf("With(Usage, nil) = %v, want nil", err)
	}
}
