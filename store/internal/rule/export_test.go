package rule

import "jobd/store"

// Found is what is found in a row.
type Found = store.Seen
