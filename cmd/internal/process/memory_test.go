package process

import (
	"encoding/json"
	"testing"

	"jobd/store/storetest/must"
)

func TestMemoryUsageKeys(t *testing.T) {
	t.Parallel()
	usage := Memory()
	if usage.RSS == 0 || usage.HeapUsed == 0 || usage.HeapTotal < usage.HeapUsed {
		t.Errorf("implausible: %+v", usage)
	}
	text := must.Get(json.Marshal(usage))(t)
	var members map[string]uint64
	must.Do(t, json.Unmarshal(text, &members))
	for _, key := range []string{"rss", "heapTotal", "heapUsed", "external", "arrayBuffers"} {
		if _, there := members[key]; !there {
			t.Errorf("%s has no %s", text, key)
		}
	}
}
