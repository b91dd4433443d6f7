package live

import "jobd/cmd/internal/screen"

// column is a column of a pane.
type column struct {
	head    string
	right   bool // numbers
	elastic bool // is cut where the window is too narrow
	least   int  // what an elastic one keeps
}

// gap is between two columns.
const gap = 2

// grid is rows in columns as wide as they need, or as there is room.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// lines gives the head and the rows, in so many columns of the terminal.
func (g *grid) lines(width int) (head string, rows []string) {
	widths := g.widths(width)
	heads := make([]string, len(g.columns))
	for i, c := range g.columns {
		heads[i] = c.head
	}
	for _, cells := range g.rows {
		rows = append(rows, g.line(cells, widths))
	}
	return g.line(heads, widths), rows
}

func (g *grid) line(cells []string, widths []int) (text string) {
	for i, cell := range cells {
		if i > 0 {
			text += "  "
		}
		if g.columns[i].right {
			text += fitRight(cell, widths[i])
		} else {
			text += fit(cell, widths[i])
		}
	}
	return text
}

// widths gives each column what its cells need. What is too much the elastic ones give up, always
// the widest of them first.
func (g *grid) widths(width int) []int {
	widths := make([]int, len(g.columns))
	all := gap * (len(g.columns) - 1)
	for i, c := range g.columns {
		widths[i] = wide(c.head)
		for _, cells := range g.rows {
			widths[i] = max(widths[i], wide(cells[i]))
		}
		all += widths[i]
	}
	screen.Narrow(widths, all-width, func(i int) int {
		if g.columns[i].elastic {
			return g.columns[i].least
		}
		return -1 // what is still too wide is cut as a line
	})
	return widths
}
