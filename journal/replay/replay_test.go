package replay

import (
	"math/rand/v2"
	"testing"
)

func TestIDSet(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	set, want := idSet{}, map[int64]bool{}
	for range 20_000 {
		id := random.Int64N(5000)
		if random.IntN(2) == 0 {
			id = random.Int64() // far apart
		}
		if id%7 == 0 {
			id = -id // what cannot be must not be taken for another
		}
		if set.add(id) == want[id] {
			t.Fatalf("id %d: new is %t", id, !want[id])
		}
		want[id] = true
	}
}
