package process

import (
	"encoding/json"
	"testing"
)

func TestMemoryUsageKeys(t *testing.T) {
	t.Parallel()
	usage := Memory()
	if usage.RSS == 0 || usage.HeapUsed == 0 || usage.HeapTotal < usage.HeapUsed {
		t.Errorf("implausible: %+v", usage)
	}
	text, err := json.Marshal(usage)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]uint64
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"rss", "heapTotal", "heapUsed", "external", "arrayBuffers"} {
		if _, there := members[key]; !there {
			t.Errorf("%s has no %s", text, key)
		}
	}
}
