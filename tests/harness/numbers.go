package harness

import (
	"fmt"
	"strings"
)

// Numbers is a table with the one column n and the numbers 1 to count, to stand behind FROM. Any
// server has it, MariaDB (whose own is called seq_1_to_…), MySQL and SQLite.
func Numbers(count int) string {
	const digit = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL " +
		"SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	sum, digits := []string{"1"}, []string{"(SELECT 0 AS d) AS d0"}
	for weight := 1; weight < count; weight *= 10 {
		name := fmt.Sprintf("d%d", len(digits))
		sum = append(sum, fmt.Sprintf("%d * %s.d", weight, name))
		digits = append(digits, digit+" AS "+name)
	}
	return fmt.Sprintf("(SELECT n FROM (SELECT %s AS n FROM %s) AS every WHERE n <= %d) AS numbers",
		strings.Join(sum, " + "), strings.Join(digits, " CROSS JOIN "), count)
}
