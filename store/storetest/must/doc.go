// Package must ends a test at once, with the error as its message, where what the test needs fails.
package must

// T is a *testing.T, or what stands for one in a test.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test on an error.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
