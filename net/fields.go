package net

import "encoding/json"

// Fields are the members of a JSON object that a peer sent, with the protocol's checks. Names are
// matched exactly; of two members of one name the last counts.
type Fields map[string]json.RawMessage

// FieldsOf gives the members of a JSON value; none where it is not an object, which is no error of
// its own in this protocol. The value must be valid JSON, as everything is that came in a frame: it
// is not looked at once more.
func FieldsOf(value json.RawMessage) Fields {
	if firstByte(value) != '{' {
		return nil
	}
	fields := make(Fields)
	for name, item := range items(value) {
		fields[Text(name)] = item
	}
	return fields
}

// Has tells whether the field is there, null included.
func (f Fields) Has(name string) bool { return f[name] != nil }

// Text is a required string. Refusals: "missing required field NAME", "'NAME' must be string".
func (f Fields) Text(name string) (string, error) { return textField(name, f[name]) }

// Int is a required integer; 2.0 is one too. Refusals: "missing required field NAME", "'NAME' must
// be integer".
func (f Fields) Int(name string) (int64, error) { return intField(name, f[name]) }

// Whole is a required whole number of 64 bits. Refusals: "missing required field NAME", "'NAME'
// must be integer".
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
func (f Fields) List(name string) (list []json.RawMessage, err error) {
	err = f.Each(name, func(item json.RawMessage) error {
		list = append(list, item)
		return nil
	})
	return list, err
}

// Each gives the items of a required array to a function, until that fails. Its own refusal: "NAME
// must be array".
func (f Fields) Each(name string, use func(item json.RawMessage) error) error {
	if firstByte(f[name]) != '[' {
		return Refusef("%s must be array", name)
	}
	for _, item := range items(f[name]) {
		if err := use(item); err != nil {
			return err
		}
	}
	return nil
}

// textField is a required string.
func textField(name string, value json.RawMessage) (string, error) {
	switch {
	case value == nil:
		return "", Refusef("missing required field %s", name)
	case TypeOf(value) != "string":
		return "", Refusef("'%s' must be string", name)
	}
	return Text(value), nil
}

// intField is a required integer.
func intField(name string, value json.RawMessage) (int64, error) {
	if value == nil {
		return 0, Refusef("missing required field %s", name)
	}
	number, ok := Integer(value)
	if !ok {
		return 0, Refusef("'%s' must be integer", name)
	}
	return number, nil
}
