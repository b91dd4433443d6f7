package host

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// mostLine is how many bytes a line may have that a kept process and the runner say to each other,
// without its end. With that it is what a pipe takes at once or not at all.
const mostLine = 4095

// runLine asks a process for a job. The values are percent-encoded, so that none of them has a
// blank, or the end of a line.
func runLine(job int64, attempt int, vars []string) ([]byte, error) {
	b := append([]byte("run "), strconv.FormatInt(job, 10)...)
	b = strconv.AppendInt(append(b, ' '), int64(attempt), 10)
	for _, v := range vars {
		b = percent(append(b, ' '), v)
	}
	if len(b) > mostLine {
		return nil, fmt.Errorf("what the process is to be told of the job takes %d bytes; a line may have %d", len(b), mostLine)
	}
	return append(b, '\n'), nil
}

// percent appends a variable. What stands as it is needs no encoding in a URL either.
func percent(b []byte, v string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(v) {
		switch c := v[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', bytes.IndexByte([]byte("=-._~/:@,"), c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// answer is a line of a kept process.
type answer struct {
	word   string // ready, started, refused, ended or exit
	job    int64
	number int  // of started: the process's, of ended: its wait status, of exit: the code
	has    bool // the number is there
}

// What the numbers may be at most: the system takes more for another number, so that it would signal
// other processes, or read another end.
const (
	mostPID    = math.MaxInt32
	mostStatus = math.MaxUint16
	mostCode   = math.MaxUint8
)

// words are what an answer may begin with, how many numbers may follow, and what the second one may
// be at most.
var words = map[string]struct {
	least, most int
	number      int64
}{
	"ready": {0, 0, 0}, "started": {1, 2, mostPID}, "refused": {1, 1, 0}, "ended": {2, 2, mostStatus}, "exit": {2, 2, mostCode},
}

// parseAnswer reads a line, which is without its end.
func parseAnswer(line []byte) (a answer, ok bool) {
	word, rest, more := bytes.Cut(line, []byte(" "))
	may, known := words[string(word)]
	a.word = string(word)
	var numbers [2]int64
	n := 0
	for ; more && n < len(numbers); n++ {
		var field []byte
		field, rest, more = bytes.Cut(rest, []byte(" "))
		if numbers[n], ok = digits(field); !ok {
			return a, false
		}
	}
	a.job, a.number, a.has = numbers[0], int(numbers[1]), n == 2
	return a, known && !more && n >= may.least && n <= may.most && numbers[1] <= may.number
}

// digits reads a number that has nothing but digits, as the others wrote it to us.
func digits(field []byte) (int64, bool) {
	for _, c := range field {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(field), 10, 64)
	return n, err == nil
}
