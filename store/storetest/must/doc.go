// Package must ends a test at once, where what the test needs fails. Package check lets it go on.
package must

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/check"
)

// T is a *testing.T, or what stands for one in a test.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test on an error. About is a format and its arguments: what the check is about.
func Do(t T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(check.Text(about, "%v", err))
	}
}

// Get gives the value of a call that may fail: must.Get(os.ReadFile(path))(t).
func Get[V any](value V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Equal compares two values by ==.
func Equal[V comparable](t T, got, want V, about ...any) {
	t.Helper()
	if got != want {
		t.Fatal(check.Differ(got, want, about))
	}
}

// Elements compares two slices; nil is as good as an empty one.
func Elements[S ~[]V, V comparable](t T, got, want S, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatal(check.Differ(got, want, about))
	}
}

// DeepEqual compares two values as reflect does.
func DeepEqual(t T, got, want any, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatal(check.Differ(got, want, about))
	}
}

// Diff compares two values as cmp does.
func Diff(t T, want, got any, about ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(check.Text(about, "(-want +got):\n%s", diff))
	}
}

// Contains wants a text within another.
func Contains(t T, text, want string, about ...any) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Fatal(check.Text(about, "%q is not in\n%s", want, text))
	}
}

// ErrorIs wants one error in the chain of another.
func ErrorIs(t T, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatal(check.Text(about, "got the error %v, want %v", err, want))
	}
}
