package net

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"jobd/store/storetest/must"
)

// Data that goes to many peers is made JSON once, however many they are.
func TestEncodedDataIsShared(t *testing.T) {
	t.Parallel()
	made := 0
	data := must.Get(Encode(counted{&made, "é"}))(t)
	var results []<-chan string
	for range 3 {
		l, peer := scripted(t, LinkConfig{Password: `s3"cret`})
		results = append(results, request(l, "a", data))
		sent := peer.receiveRequest()
		if string(sent.Data) != "\"é\"" || sent.Type != "a" || sent.Password == nil || *sent.Password != `s3"cret` {
			t.Errorf("sent %+v", sent)
		}
		peer.send(fmt.Sprintf(`[1,{"no":%d,"data":1}]`, sent.No))
	}
	for _, result := range results {
		if got := <-result; got != "1 <nil>" {
			t.Errorf("answer %s", got)
		}
	}
	if made != 1 {
		t.Errorf("the data was encoded %d times", made)
	}
}

func TestEncodedPartsAreNotCopied(t *testing.T) {
	t.Parallel()
	data := must.Get(Encode(strings.Repeat("x", 1<<20)))(t)
	parts, err := encodeRequest(requestBody{No: 1, Type: "a"}, data, "")
	if err != nil || len(parts) != 3 || unsafe.SliceData(parts[1]) != unsafe.SliceData(data.text) {
		t.Errorf("%d parts, error %v: the data was copied", len(parts), err)
	}
	for _, empty := range []any{nil, Encoded{}} {
		parts, err := encodeRequest(requestBody{No: 1, Type: "a"}, empty, "")
		if err != nil || len(parts) != 1 || string(parts[0]) != `[0,{"no":1,"type":"a"}]`+"\x04" {
			t.Errorf("no data: %q, %v", parts, err)
		}
	}
	if _, err := Encode(make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
}

// counted counts how often it is made JSON.
type counted struct {
	times *int
	text  string
}

func (c counted) MarshalJSON() ([]byte, error) {
	*c.times++
	return json.Marshal(c.text)
}
