package clients

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the application's driver
	_ "modernc.org/sqlite"             // another one

	"jobd/examples/clients/client"
)

// A driver is a program that calls a client as its arguments say, and prints what it gives:
//
//	enqueue commit|rollback TARGET STATUS PAYLOAD   with an order, in one transaction; the id
//	poke TARGET...
//	run ID:TARGET...                                {"jobs": {…}, "errors": {…}}
//	signal NUMBER ID:TARGET                         true or false
//	status
//
// An error of the client is "code: text" on stderr, and exit code 3. The daemon is in the
// variables of examples/clients/jobd.sh, the application's database in APP_*. The others are in
// testdata; this one is for Go, and is this test's own program, started once more.
func driver(ctx context.Context, command string, words []string) error {
	limit, _ := strconv.Atoi(os.Getenv("JOBCTL_TIMEOUT"))
	pulse, _ := strconv.Atoi(os.Getenv("JOBCTL_PULSE"))
	jobs := &client.Client{
		Addr:     net.JoinHostPort(os.Getenv("JOBCTL_HOST"), os.Getenv("JOBCTL_PORT")),
		Worker:   os.Getenv("JOBCTL_MASTER") != "true",
		Password: os.Getenv("JOBCTL_PASSWORD"),
		Timeout:  time.Duration(limit) * time.Second,
		Pulse:    time.Duration(pulse) * time.Second,
	}
	switch command {
	case "enqueue":
		return enqueue(ctx, words[0], words[1], words[2], words[3])
	case "poke":
		return jobs.Poke(ctx, words...)
	case "run":
		if limit > 0 {
			limited, cancel := context.WithTimeout(ctx, jobs.Timeout)
			defer cancel()
			ctx = limited
		}
		named := map[int64]string{}
		for _, word := range words {
			id, target := split(word)
			named[id] = target
		}
		outcomes, err := jobs.Run(ctx, named)
		return printed(outcomes, err)
	case "signal":
		id, target := split(words[1])
		number, _ := strconv.Atoi(words[0])
		delivered, err := jobs.Signal(ctx, id, target, number)
		return printed(delivered, err)
	case "status":
		status, err := jobs.Status(ctx)
		return printed(status, err)
	}
	return fmt.Errorf("the driver knows no %s", command)
}

func split(word string) (id int64, target string) {
	text, target, _ := strings.Cut(word, ":")
	id, _ = strconv.ParseInt(text, 10, 64)
	return id, target
}

func printed(answer any, err error) error {
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(answer); err != nil {
		return err
	}
	_, err = out.WriteTo(os.Stdout)
	return err
}

func enqueue(ctx context.Context, end, target, status, payload string) error {
	kind, source := "sqlite", os.Getenv("APP_SQLITE")
	if source == "" {
		kind, source = "mysql", fmt.Sprintf("%s:%s@tcp(%s:%s)/%s", os.Getenv("APP_USER"), os.Getenv("APP_PASSWORD"),
			os.Getenv("APP_HOST"), os.Getenv("APP_PORT"), os.Getenv("APP_DATABASE"))
	}
	db, err := sql.Open(kind, source)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is over where it was committed
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (text) VALUES (?)", payload); err != nil {
		return err
	}
	id, err := client.Enqueue(ctx, tx, target, map[string]any{"status": status, "payload": payload})
	if err != nil {
		return err
	}
	if end == "commit" {
		err = tx.Commit()
	}
	return printed(id, err)
}

// drive is the driver as a process; it gives its exit code.
func drive(words []string) int {
	err := driver(context.Background(), words[0], words[1:])
	var told *client.Error
	switch {
	case errors.As(err, &told):
		fmt.Fprintf(os.Stderr, "%s: %s\n", told.Code, told.Text)
		return 3
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
