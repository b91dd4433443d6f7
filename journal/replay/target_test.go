package replay

import (
	"reflect"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// An event of the worker that names a target is about it, whatever its kind. Opened names all of
// them, as a table.
func TestEveryEventThatNamesATargetIsAboutIt(t *testing.T) {
	t.Parallel()
	for _, kind := range journal.Kinds() {
		payload := must.Get(journal.DecodePayload(kind, []byte(`{"target":"a"}`), nil, nil))(t)
		if (&journal.State{}).Apply(journal.Event{Seq: 1, Payload: payload}) != nil {
			continue // it is of a job, whose claim tells its target
		}
		value := reflect.New(reflect.TypeOf(payload)).Elem()
		one, several := value.FieldByName("Target"), value.FieldByName("Targets")
		switch {
		case one.IsValid():
			one.SetString("a")
		case several.IsValid() && several.Kind() == reflect.Slice:
			several.Set(reflect.ValueOf([]string{"a"}))
		case several.IsValid():
			several.Set(reflect.ValueOf(map[string]int{"a": 1}))
		default:
			continue
		}
		named := value.Interface().(journal.Payload)
		if !about(named, journal.Filter{Target: "a"}) || about(named, journal.Filter{Target: "b"}) {
			t.Errorf("%s: about a: %t, about b: %t", kind, about(named, journal.Filter{Target: "a"}), about(named, journal.Filter{Target: "b"}))
		}
	}
}
