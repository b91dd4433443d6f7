package exit_test

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/store/storetest/check"
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
			check.Equal(t, out.String(), test.text, "wrote")
		})
	}
}

// The code of several errors is that of all, or of a signal among them; else the plain one.
func TestJoinedCodes(t *testing.T) {
	t.Parallel()
	plain := errors.New("refused")
	gone, late := exit.With(exit.NoJob, errors.New("gone")), exit.With(exit.Late, errors.New("late"))
	for name, test := range map[string]struct {
		errs []error
		want int
	}{
		"none":             {nil, 0},
		"nothing but nil":  {[]error{nil, nil}, 0},
		"one":              {[]error{nil, gone}, exit.NoJob},
		"all alike":        {[]error{gone, gone}, exit.NoJob},
		"one has no code":  {[]error{gone, plain}, exit.Failure},
		"none has a code":  {[]error{plain, plain}, exit.Failure},
		"they differ":      {[]error{gone, late}, exit.Failure},
		"a signal is last": {[]error{gone, exit.With(130, plain)}, 130},
	} {
		check.Equal(t, exit.Code(exit.Join(test.errs...)), test.want, "%s", name)
	}
}

func TestWithKeepsNil(t *testing.T) {
	t.Parallel()
	check.Do(t, exit.With(exit.Usage, nil), "With(Usage, nil) =")
}
