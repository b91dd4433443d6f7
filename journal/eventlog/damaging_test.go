package eventlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"jobd/journal/archive"
	"jobd/journal/replay"
)

// tamper runs statements on the database with the guards off.
func tamper(statements ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db := archive.OpenForWriting(filepath.Join(dir, segmentFile))
		defer db.Close()
		guards := make([]string, 2)
		for i, name := range []string{"records_no_update", "records_no_delete"} {
			if err := db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&guards[i]); err != nil {
				t.Fatal(err)
			}
			statements = slices.Concat([]string{`DROP TRIGGER ` + name}, statements, guards[i:i+1])
		}
		for _, statement := range statements {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
}

func onFile(name string, change func(content []byte) []byte) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// verify is what an auditor does.
func verdictOn(ctx context.Context, dir string) error {
	r, err := replay.Open(dir)
	if err != nil {
		return err
	}
	_, err = verifyAll(ctx, r)
	return errors.Join(err, r.Close())
}
