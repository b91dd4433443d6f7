package net

import "encoding/json"

// Fields are the members of a JSON object that a peer sent, with the protocol's checks. Names are matched exactly.
type Fields map[string]json.RawMessage

// FieldsOf gives the members of value; none where it is not an object, which is no error of its own in this protocol.
func FieldsOf(value json.RawMessage) Fields {
	fields, _ := objectOf(value)
	return fields
}

// objectOf is FieldsOf, telling also whether value is an object.
func objectOf(value json.RawMessage) (Fields, bool) {
	if firstByte(value) != '{' {
		return nil, false
	}
	if !json.Valid(value) {
		return nil, false
	}
	fields := make(Fields)
	for name, item := range items(value) {
		fields[textOf(name)] = item
	}
	return fields, true
}

// membersOf gives those members of a valid object that the protocol knows; not ok where it is none.
func membersOf(value json.RawMessage) (fields Fields, ok bool) {
	if firstByte(value) != '{' {
		return nil, false
	}
	fields = make(Fields)
	for name, item := range items(value) {
		switch name := textOf(name); name {
		case "no", "type", "data", "password", "error":
			fields[name] = item
		}
	}
	return fields, true
}

// Has tells whether the field is there, null included.
func (f Fields) Has(name string) bool { return f[name] != nil }

// Text is a required string. Refusals: "missing required field NAME", "'NAME' must be string".
func (f Fields) Text(name string) (string, error) {
	if !f.Has(name) {
		return "", Refusef("missing required field %s", name)
	}
	var text string
	if TypeOf(f[name]) != "string" || json.Unmarshal(f[name], &text) != nil {
		return "", Refusef("'%s' must be string", name)
	}
	return text, nil
}

// Int is a required integer; 2.0 is one too. Refusals: "missing required field NAME", "'NAME' must be integer".
func (f Fields) Int(name string) (int64, error) {
	if !f.Has(name) {
		return 0, Refusef("missing required field %s", name)
	}
	number, ok := Integer(f[name])
	if !ok {
		return 0, Refusef("'%s' must be integer", name)
	}
	return number, nil
}

// Whole is a required whole number of 64 bits. Refusals: "missing required field NAME", "'NAME' must be integer".
func (f Fields) Whole(name string) (Whole, error) {
	if !f.Has(name) {
		return 0, Refusef("missing required field %s", name)
	}
	number, err := ParseWhole(f[name])
	if err != nil {
		return 0, Refusef("'%s' must be integer", name)
	}
	return number, nil
}

// Flag is an optional boolean: what JavaScript takes for true is true.
func (f Fields) Flag(name string) bool { return truthy(f[name]) }

// List is a required array. Its refusal: "NAME must be array".
func (f Fields) List(name string) ([]json.RawMessage, error) {
	if firstByte(f[name]) != '[' {
		return nil, Refusef("%s must be array", name)
	}
	if !json.Valid(f[name]) {
		return nil, Refusef("%s must be array", name)
	}
	var list []json.RawMessage
	for _, item := range items(f[name]) {
		list = append(list, item)
	}
	return list, nil
}

// AtMost refuses a list or an object of more than so many: a request's cost grows with each of them.
func AtMost(name string, are, most int) error {
	if are > most {
		return Refusef("%s: at most %d are allowed in a request, got %d", name, most, are)
	}
	return nil
}

// What a list of targets may be.
const (
	mostTargets   = 10_000
	longestTarget = 1024 // bytes
)

// Targets is the required list of target names. Refusals, in this order: "targets must be array",
// "targets are empty", "all targets must be strings, number given". Where the list may be absent,
// ask Has("targets") first. Whether the targets are known is for the caller to check.
func (f Fields) Targets() ([]string, error) {
	items, err := f.List("targets")
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, Refusal("targets are empty")
	}
	if err := AtMost("targets", len(items), mostTargets); err != nil {
		return nil, err
	}
	targets := make([]string, len(items))
	for i, item := range items {
		if TypeOf(item) != "string" || json.Unmarshal(item, &targets[i]) != nil {
			return nil, Refusef("all targets must be strings, %s given", TypeOf(item))
		}
		if len(targets[i]) > longestTarget {
			return nil, Refusef("target '%s' is too long: at most %d bytes are allowed", Excerpt(targets[i]), longestTarget)
		}
	}
	return targets, nil
}

// payload is the field data of a message; nil where it is absent or null.
func (f Fields) payload() (json.RawMessage, error) {
	data := f["data"]
	switch {
	case firstByte(data) == 'n':
		return nil, nil
	case TypeOf(data) == "boolean":
		return nil, Refusal("'data' must be any of: string, number, object, array")
	}
	return data, nil
}
