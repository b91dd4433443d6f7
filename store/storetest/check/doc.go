// Package check reports what is not as a test wants it, and lets the test go on. Package must ends
// the test instead.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// T is a *testing.T, or what stands for one in a test.
type T interface {
	Helper()
	Error(args ...any)
}

// Do reports an error. About is a format and its arguments: what the check is about.
func Do(t T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Error(Text(about, "%v", err))
	}
}

// Equal compares two values by ==.
func Equal[V comparable](t T, got, want V, about ...any) {
	t.Helper()
	if got != want {
		t.Error(Differ(got, want, about))
	}
}

// Elements compares two slices; nil is as good as an empty one.
func Elements[S ~[]V, V comparable](t T, got, want S, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Error(Differ(got, want, about))
	}
}

// DeepEqual compares two values as reflect does.
func DeepEqual(t T, got, want any, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Error(Differ(got, want, about))
	}
}

// Diff compares two values as cmp does.
func Diff(t T, want, got any, about ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(Text(about, "(-want +got):\n%s", diff))
	}
}

// Contains wants a text within another.
func Contains(t T, text, want string, about ...any) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Error(Text(about, "%q is not in\n%s", want, text))
	}
}

// ErrorIs wants one error in the chain of another.
func ErrorIs(t T, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Error(Text(about, "got the error %v, want %v", err, want))
	}
}

// Differ says how a value differs from the wanted one.
func Differ(got, want any, about []any) string {
	form := "got %+v, want %+v"
	if text, is := want.(string); is {
		if form = "got %q, want %q"; strings.Contains(text, "\n") {
			form = "got\n%s\nwant\n%s"
		}
	}
	return Text(about, form, got, want)
}

// Text is a message behind what it is about.
func Text(about []any, format string, args ...any) string {
	message := fmt.Sprintf(format, args...)
	if len(about) == 0 {
		return message
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ": " + message
}
